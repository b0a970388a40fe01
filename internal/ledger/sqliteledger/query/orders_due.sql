-- Reserved orders whose hold is over, oldest first. It reads ids and times only,
-- so that no other damage to an order's row stops the sweep.
-- params: from, now, limit
SELECT o.id, o.expires_at
FROM orders o INDEXED BY orders_due
WHERE o.state = 'reserved' AND o.expires_at BETWEEN ? AND ?
ORDER BY o.expires_at, o.id
LIMIT ?
