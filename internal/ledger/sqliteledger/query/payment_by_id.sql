-- One payment.
-- params: id
SELECT p.id, p.order_id, p.status, p.amount, p.currency, p.outcome, p.paid_order, p.at
FROM payments p
WHERE p.id = ?
