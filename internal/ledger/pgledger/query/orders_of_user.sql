-- A page of a buyer's orders, newest first; sale 0 is any sale, an empty state any
-- state.
-- params: user, sale, before (reserved_at), before (id), state, limit
SELECT {order}
FROM orders o JOIN sales s ON s.number = o.sale
WHERE o.user_id = $1 AND ($2 = 0 OR o.sale + 0 = $2) AND (o.reserved_at, o.id) < ($3, $4) AND ($5 = '' OR o.state = $5)
ORDER BY o.reserved_at DESC, o.id DESC
LIMIT $6
