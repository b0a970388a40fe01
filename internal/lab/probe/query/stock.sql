-- Number, salts of the lanes, units put up and units sold of a sale, and whether it is
-- sold through the lanes.
-- params: slug
SELECT s.number, s.salts, sum(i.stock)::bigint, sum(i.sold)::bigint, s.path = 'fast'
FROM sales s JOIN items i ON i.sale = s.number
WHERE s.slug = $1 AND s.state <> 'deleted'
GROUP BY s.number
