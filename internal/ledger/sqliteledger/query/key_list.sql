-- Every API key, in order of id.
-- params: none
SELECT id, hash, scopes, label, created_at, revoked_at FROM api_keys ORDER BY id
