-- Does the same, passing over those that somebody is writing to at this moment, so
-- that sweepers side by side take different ones.
-- params: from, now, limit
SELECT o.id, o.expires_at
FROM orders o
WHERE o.state = 'reserved' AND o.expires_at >= $1 AND o.expires_at <= $2
ORDER BY o.expires_at, o.id
LIMIT $3
FOR NO KEY UPDATE SKIP LOCKED
