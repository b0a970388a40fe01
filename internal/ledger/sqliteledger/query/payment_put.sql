-- Enters a payment, or what has become of a known one; the time of the first notice stays.
-- params: id, order_id, status, amount, currency, outcome, paid_order, at
INSERT INTO payments (id, order_id, status, amount, currency, outcome, paid_order, at) VALUES (?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (id) DO UPDATE SET status = excluded.status, amount = excluded.amount, currency = excluded.currency,
    outcome = excluded.outcome, paid_order = excluded.paid_order
WHERE order_id = excluded.order_id
    AND (status = 'failed' OR amount = excluded.amount AND currency = excluded.currency)
