-- Enters orders of one sale.
-- params: sale, ids, users, skus, quantities, terms, amounts, currencies, states, epochs, versions, reserved_ats, expires_ats, ended_ats, reasons, payment_ids, replaces (the zero id for none)
INSERT INTO orders (sale, id, user_id, sku, quantity, terms, amount, currency, state, epoch, version, reserved_at, expires_at,
    ended_at, reason, payment_id, replaces)
SELECT $1, u.id, u.user_id, u.sku, u.quantity, u.terms, u.amount, u.currency, u.state, u.epoch, u.version, u.reserved_at,
    u.expires_at, u.ended_at, u.reason, u.payment_id, nullif(u.replaces, {none})
FROM unnest($2::uuid[], $3::text[], $4::text[], $5::bigint[], $6::bigint[], $7::bigint[], $8::text[], $9::text[], $10::bigint[],
    $11::bigint[], $12::bigint[], $13::bigint[], $14::bigint[], $15::text[], $16::text[], $17::uuid[])
    AS u (id, user_id, sku, quantity, terms, amount, currency, state, epoch, version, reserved_at, expires_at, ended_at,
        reason, payment_id, replaces)
