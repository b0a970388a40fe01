-- An API key (k), as decodeKey reads it.
-- params: none
k.id, k.hash, k.scopes::text, k.label, k.created_at, k.revoked_at
