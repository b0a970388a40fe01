-- A page of a sale's orders, newest first; an empty state is any.
-- params: sale, before (reserved_at), before (id), state, limit
SELECT {order}
FROM orders o JOIN sales s ON s.number = o.sale
WHERE o.sale = $1 AND (o.reserved_at, o.id) < ($2, $3) AND ($4 = '' OR o.state = $4)
ORDER BY o.reserved_at DESC, o.id DESC
LIMIT $5
