-- Ends a write transaction.
-- params: none
COMMIT
