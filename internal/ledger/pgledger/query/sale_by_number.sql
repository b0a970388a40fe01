-- One sale, deleted or not: a row for each of its items, in order.
-- params: sale
SELECT {sale}
FROM sales s LEFT JOIN items i ON i.sale = s.number
WHERE s.number = $1
ORDER BY i.position
