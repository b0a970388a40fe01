-- A page of all refund records, in the order they came to be.
-- params: after (id; an unknown one is the beginning), limit
SELECT r.id, r.payment_id, r.order_id, r.amount, r.currency, r.reason, r.state, r.created_at, r.done_at
FROM refunds r
WHERE r.row > coalesce((SELECT a.row FROM refunds a WHERE a.id = ?), 0)
ORDER BY r.row
LIMIT ?
