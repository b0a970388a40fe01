-- A page of all orders, newest first: the newest of each sale, merged. An empty
-- state is any.
-- params: before (reserved_at), before (id), state, limit
SELECT o.id, s.slug, o.user, o.sku, o.quantity, o.terms, o.amount, o.currency, o.state, o.epoch, o.version,
    o.reserved_at, o.expires_at, o.ended_at, o.reason, o.payment_id, o.replaces
FROM sales s CROSS JOIN orders o ON o.row IN (
    SELECT n.row
    FROM orders n INDEXED BY orders_sale
    WHERE n.sale = s.number AND (n.reserved_at, n.id) < (?1, ?2) AND (?3 = '' OR n.state = ?3)
    ORDER BY n.reserved_at DESC, n.id DESC
    LIMIT ?4
)
ORDER BY o.reserved_at DESC, o.id DESC
LIMIT ?4
