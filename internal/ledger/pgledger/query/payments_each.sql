-- The next payments for orders of a sale, in order of order and payment id.
-- params: after (order id), after (payment id), last (order id), limit
SELECT {payment}
FROM payments p
WHERE (p.order_id, p.id) > ($1, $2) AND p.order_id >= $1 AND p.order_id <= $3
ORDER BY p.order_id, p.id
LIMIT $4
