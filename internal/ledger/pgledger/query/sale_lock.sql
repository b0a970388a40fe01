-- Keeps every other writer away from a sale. Nobody changes a sale's number, so
-- the lock is the one that an update takes; it lets foreign keys be checked.
-- params: sale
SELECT s.number FROM sales s WHERE s.number = $1 FOR NO KEY UPDATE
