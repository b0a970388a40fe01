-- Enters dead letters, or what has become of known ones.
-- params: ids, sale, origins, causes, raws, order_ids (the zero id for none), users, skus, quantities, epochs, terms, taken_ats, presented, states, parked_ats, closed_ats
INSERT INTO dead_letters (id, sale, origin, cause, raw, order_id, user_id, sku, quantity, epoch, terms, taken_at, presented,
    state, parked_at, closed_at)
SELECT u.id, $2, u.origin, u.cause, u.raw, nullif(u.order_id, {none}), u.user_id, u.sku, u.quantity, u.epoch, u.terms,
    u.taken_at, u.presented, u.state, u.parked_at, u.closed_at
FROM unnest($1::uuid[], $3::bytea[], $4::bytea[], $5::bytea[], $6::uuid[], $7::bytea[], $8::bytea[], $9::bigint[], $10::bigint[],
    $11::bigint[], $12::bigint[], $13::boolean[], $14::text[], $15::bigint[], $16::bigint[])
    WITH ORDINALITY AS u (id, origin, cause, raw, order_id, user_id, sku, quantity, epoch, terms, taken_at, presented, state,
        parked_at, closed_at, nth)
ORDER BY u.nth
ON CONFLICT (id) DO UPDATE SET state = excluded.state, closed_at = excluded.closed_at
WHERE dead_letters.sale = excluded.sale
