-- The listing of a subject.
-- params: kind, value
SELECT kind, value, effect, reason, author, created_at, expires_at, level, dropped, version
FROM gate_listings
WHERE kind = ? AND value = ?
