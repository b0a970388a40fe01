-- The sale that has this slug now: a row for each of its items, in order.
-- params: slug
SELECT {sale}
FROM sales s LEFT JOIN items i ON i.sale = s.number
WHERE s.slug = $1 AND s.state <> 'deleted'
ORDER BY i.position
