-- One refund record.
-- params: id
SELECT r.id, r.payment_id, r.order_id, r.amount, r.currency, r.reason, r.state, r.created_at, r.done_at
FROM refunds r
WHERE r.id = ?
