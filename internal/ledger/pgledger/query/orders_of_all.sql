-- A page of all orders, newest first: the newest of each sale, merged. An empty
-- state is any.
-- params: before (reserved_at), before (id), state, limit
SELECT {order}
FROM sales s CROSS JOIN LATERAL (
    SELECT n.*
    FROM orders n
    WHERE n.sale = s.number AND (n.reserved_at, n.id) < ($1, $2) AND ($3 = '' OR n.state = $3)
    ORDER BY n.reserved_at DESC, n.id DESC
    LIMIT $4
) o
ORDER BY o.reserved_at DESC, o.id DESC
LIMIT $4
