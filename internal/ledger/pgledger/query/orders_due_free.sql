-- Does the same, passing over those that somebody is writing to at this moment, so
-- that sweepers side by side take different ones.
-- params: now, limit
SELECT o.id, o.expires_at
FROM orders o
WHERE o.state = 'reserved' AND o.expires_at <= $1
ORDER BY o.expires_at, o.id
LIMIT $2
FOR NO KEY UPDATE SKIP LOCKED
