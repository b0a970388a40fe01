-- Enters a refund record, or what has become of a known one.
-- params: id, payment_id, order_id, amount, currency, reason, state, created_at, done_at
INSERT INTO refunds (id, payment_id, order_id, amount, currency, reason, state, created_at, done_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (id) DO UPDATE SET state = excluded.state, done_at = excluded.done_at
WHERE payment_id = excluded.payment_id AND order_id = excluded.order_id AND amount = excluded.amount
    AND currency = excluded.currency AND reason = excluded.reason
