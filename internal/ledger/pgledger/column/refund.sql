-- A refund record (r), as decodeRefund reads it.
-- params: none
r.id, r.payment_id, r.order_id, r.amount, r.currency, r.reason, r.state, r.created_at, r.done_at
