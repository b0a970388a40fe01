-- Does the same for a writer, who locks them in order of id: a sweeper then passes
-- over what another one is about to end.
-- params: ids (ascending)
SELECT {order}
FROM unnest($1::uuid[]) AS u (id)
    CROSS JOIN LATERAL (SELECT f.* FROM orders f WHERE f.id = u.id LIMIT 1 FOR NO KEY UPDATE) o
    JOIN sales s ON s.number = o.sale
