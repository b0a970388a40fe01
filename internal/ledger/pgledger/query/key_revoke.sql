-- Ends an API key's validity; the first end stays.
-- params: id, revoked_at
UPDATE api_keys SET revoked_at = CASE WHEN revoked_at = 0 THEN $2 ELSE revoked_at END WHERE id = $1 RETURNING id
