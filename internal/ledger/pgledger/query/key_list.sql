-- Every API key, in order of id.
-- params: none
SELECT {key} FROM api_keys k ORDER BY k.id
