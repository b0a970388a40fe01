-- Reserved orders whose hold is over, oldest first. It reads ids and times only,
-- so that no damage to an order's row stops the sweep.
-- params: from, now, limit
SELECT o.id, o.expires_at
FROM orders o
WHERE o.state = 'reserved' AND o.expires_at >= $1 AND o.expires_at <= $2
ORDER BY o.expires_at, o.id
LIMIT $3
