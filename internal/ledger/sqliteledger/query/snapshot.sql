-- Fixes the instant that a read transaction sees.
-- params: none
SELECT 1 FROM sales LIMIT 1
