-- A page of the refund records in one state, in the order they came to be.
-- params: state, after (id; an unknown one is the beginning), limit
SELECT {refund}
FROM refunds r
WHERE r.state = $1 AND r.place > coalesce((SELECT a.place FROM refunds a WHERE a.id = $2), 0)
ORDER BY r.place
LIMIT $3
