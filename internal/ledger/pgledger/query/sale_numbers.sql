-- The number of every sale, deleted ones included, ascending.
-- params: none
SELECT s.number FROM sales s ORDER BY s.number
