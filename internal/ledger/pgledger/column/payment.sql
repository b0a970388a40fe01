-- A payment (p), as decodePayment reads it.
-- params: none
p.id, p.order_id, p.status, p.amount, p.currency, p.outcome, p.paid_order, p.at
