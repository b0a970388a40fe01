-- Enters keys of the gate, or when known ones were retired.
-- params: ids, secrets, created_ats, retired_ats
INSERT INTO gate_keys (id, secret, created_at, retired_at)
SELECT u.id, u.secret, u.created_at, u.retired_at
FROM unnest($1::bigint[], $2::bytea[], $3::bigint[], $4::bigint[]) AS u (id, secret, created_at, retired_at)
ON CONFLICT (id) DO UPDATE SET retired_at = excluded.retired_at WHERE gate_keys.secret = excluded.secret
