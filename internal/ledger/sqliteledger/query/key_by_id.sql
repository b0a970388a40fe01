-- One API key.
-- params: id
SELECT id, hash, scopes, label, created_at, revoked_at FROM api_keys WHERE id = ?
