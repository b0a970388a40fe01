-- Every refund record for an order of a sale, in the order they came to be.
-- params: first (order id), last (order id)
SELECT r.id, r.payment_id, r.order_id, r.amount, r.currency, r.reason, r.state, r.created_at, r.done_at
FROM refunds r INDEXED BY refunds_order
WHERE r.order_id BETWEEN ? AND ?
ORDER BY r.row
