-- Those of some orders that exist.
-- params: ids
SELECT {order}
FROM orders o JOIN sales s ON s.number = o.sale
WHERE o.id = ANY ($1::uuid[])
