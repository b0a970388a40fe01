-- A page of the listings that were changed after a version.
-- params: after (version), limit
SELECT kind, value, effect, reason, author, created_at, expires_at, level, dropped, version
FROM gate_listings
WHERE version > ?
ORDER BY version
LIMIT ?
