-- One API key.
-- params: id
SELECT {key} FROM api_keys k WHERE k.id = $1
