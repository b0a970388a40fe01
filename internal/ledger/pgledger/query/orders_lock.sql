-- Does the same for a writer, who locks them in order of id: a sweeper then passes
-- over what another one is about to end.
-- params: ids
SELECT {order}
FROM orders o JOIN sales s ON s.number = o.sale
WHERE o.id = ANY ($1::uuid[])
ORDER BY o.id
FOR NO KEY UPDATE OF o
