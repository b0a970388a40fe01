-- Undoes a transaction.
-- params: none
ROLLBACK
