-- A page of the refund records in one state, in the order they came to be.
-- params: state, after (id; an unknown one is the beginning), limit
SELECT r.id, r.payment_id, r.order_id, r.amount, r.currency, r.reason, r.state, r.created_at, r.done_at
FROM refunds r INDEXED BY refunds_state
WHERE r.state = ?1 AND r.row > coalesce((SELECT a.row FROM refunds a WHERE a.id = ?2), 0)
ORDER BY r.row
LIMIT ?3
