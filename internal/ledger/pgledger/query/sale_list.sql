-- A page of the sales that are not deleted: a row for each of their items, in order.
-- params: after (sale), limit
SELECT {sale}
FROM (SELECT * FROM sales WHERE number > $1 AND state <> 'deleted' ORDER BY number LIMIT $2) s
    LEFT JOIN items i ON i.sale = s.number
ORDER BY s.number, i.position
