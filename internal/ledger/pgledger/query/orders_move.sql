-- Moves orders on, each if it is in the state that the writer believes; found as in
-- orders_by_id.
-- params: ids, from_states, states, versions, expires_ats, ended_ats, payment_ids
UPDATE orders o
SET state = u.state, version = u.version, expires_at = u.expires_at, ended_at = u.ended_at, payment_id = u.payment_id
FROM unnest($1::uuid[], $2::text[], $3::text[], $4::bigint[], $5::bigint[], $6::bigint[], $7::text[])
    AS u (id, from_state, state, version, expires_at, ended_at, payment_id)
    CROSS JOIN LATERAL (SELECT f.ctid FROM orders f WHERE f.id = u.id AND f.state = u.from_state LIMIT 1) found
WHERE o.ctid = found.ctid
