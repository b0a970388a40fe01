-- The number of every sale, deleted ones included, ascending.
-- params: none
SELECT number FROM sales ORDER BY number
