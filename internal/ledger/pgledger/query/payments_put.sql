-- Enters payments, or what has become of known ones; the time of the first notice stays.
-- params: ids, order_ids, statuses, amounts, currencies, outcomes, paid_orders (the zero id for none), ats
INSERT INTO payments (id, order_id, status, amount, currency, outcome, paid_order, at)
SELECT u.id, u.order_id, u.status, u.amount, u.currency, u.outcome, nullif(u.paid_order, {none}), u.at
FROM unnest($1::text[], $2::uuid[], $3::text[], $4::bigint[], $5::text[], $6::text[], $7::uuid[], $8::bigint[])
    AS u (id, order_id, status, amount, currency, outcome, paid_order, at)
ON CONFLICT (id) DO UPDATE SET status = excluded.status, amount = excluded.amount, currency = excluded.currency,
    outcome = excluded.outcome, paid_order = excluded.paid_order
WHERE payments.order_id = excluded.order_id
    AND (payments.status = 'failed' OR payments.amount = excluded.amount AND payments.currency = excluded.currency)
