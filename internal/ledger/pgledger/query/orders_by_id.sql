-- Those of some orders that exist. LATERAL … LIMIT leaves the planner one way, a
-- look-up by id for each, whatever it believes of the size of the table.
-- params: ids
SELECT {order}
FROM unnest($1::uuid[]) AS u (id)
    CROSS JOIN LATERAL (SELECT f.* FROM orders f WHERE f.id = u.id LIMIT 1) o
    JOIN sales s ON s.number = o.sale
