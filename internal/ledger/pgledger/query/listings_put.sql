-- Enters listings in the place of any others of their subjects.
-- params: kinds, values, effects, reasons, authors, created_ats, expires_ats, levels, droppeds, versions
INSERT INTO gate_listings (kind, value, effect, reason, author, created_at, expires_at, level, dropped, version)
SELECT u.kind, u.value, u.effect, u.reason, u.author, u.created_at, u.expires_at, u.level, u.dropped, u.version
FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::text[], $6::bigint[], $7::bigint[], $8::bigint[], $9::boolean[],
    $10::bigint[]) AS u (kind, value, effect, reason, author, created_at, expires_at, level, dropped, version)
ON CONFLICT (kind, value) DO UPDATE SET effect = excluded.effect, reason = excluded.reason, author = excluded.author,
    created_at = excluded.created_at, expires_at = excluded.expires_at, level = excluded.level, dropped = excluded.dropped,
    version = excluded.version
