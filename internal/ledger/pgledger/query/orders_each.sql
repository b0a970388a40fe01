-- The next orders of a sale in order of id: a range of ids.
-- params: after (id), last (id), limit
SELECT {order}
FROM orders o JOIN sales s ON s.number = o.sale
WHERE o.id > $1 AND o.id <= $2
ORDER BY o.id
LIMIT $3
