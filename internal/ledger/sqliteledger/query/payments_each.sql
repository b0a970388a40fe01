-- Every payment for an order of a sale, in order of order and payment id.
-- params: first (order id), last (order id)
SELECT p.id, p.order_id, p.status, p.amount, p.currency, p.outcome, p.paid_order, p.at
FROM payments p INDEXED BY payments_order
WHERE p.order_id BETWEEN ? AND ?
ORDER BY p.order_id, p.id
