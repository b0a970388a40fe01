-- Ends an API key's validity; the first end stays.
-- params: revoked_at, id
UPDATE api_keys SET revoked_at = iif(revoked_at = 0, ?, revoked_at) WHERE id = ?
