-- A page of all refund records, in the order they came to be.
-- params: after (id; an unknown one is the beginning), limit
SELECT {refund}
FROM refunds r
WHERE r.place > coalesce((SELECT a.place FROM refunds a WHERE a.id = $1), 0)
ORDER BY r.place
LIMIT $2
