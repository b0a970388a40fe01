-- Writes an API key.
-- params: id, hash, scopes, label, created_at, revoked_at
INSERT INTO api_keys (id, hash, scopes, label, created_at, revoked_at) VALUES ($1, $2, $3::text::jsonb, $4, $5, $6)
ON CONFLICT (id) DO UPDATE SET hash = excluded.hash, scopes = excluded.scopes, label = excluded.label,
    created_at = excluded.created_at, revoked_at = excluded.revoked_at
