-- Whether a sale has a reserved order: the first one whose hold ends.
-- params: sale
SELECT 1
FROM orders o INDEXED BY orders_due
WHERE o.state = 'reserved' AND o.sale = ?
ORDER BY o.expires_at
LIMIT 1
