-- Enters refund records, or what has become of known ones.
-- params: ids, payment_ids, order_ids, amounts, currencies, reasons, states, created_ats, done_ats
INSERT INTO refunds (id, payment_id, order_id, amount, currency, reason, state, created_at, done_at)
SELECT u.id, u.payment_id, u.order_id, u.amount, u.currency, u.reason, u.state, u.created_at, u.done_at
FROM unnest($1::uuid[], $2::text[], $3::uuid[], $4::bigint[], $5::text[], $6::text[], $7::text[], $8::bigint[], $9::bigint[])
    WITH ORDINALITY AS u (id, payment_id, order_id, amount, currency, reason, state, created_at, done_at, nth)
ORDER BY u.nth
ON CONFLICT (id) DO UPDATE SET state = excluded.state, done_at = excluded.done_at
WHERE refunds.payment_id = excluded.payment_id AND refunds.order_id = excluded.order_id AND refunds.amount = excluded.amount
    AND refunds.currency = excluded.currency AND refunds.reason = excluded.reason
