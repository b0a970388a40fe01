-- A page of a buyer's orders, newest first, along the list that holders.newest and
-- orders.previous make; sale 0 is any sale, an empty state any state.
-- params: user, sale, before (reserved_at), before (id), state, limit
WITH RECURSIVE mine (row) AS (
    SELECT h.newest
    FROM sales s CROSS JOIN holders h ON h.sale = s.number AND h.user = ?1
    WHERE (?2 = 0 OR s.number = ?2) AND h.newest IS NOT NULL
    UNION ALL
    SELECT o.previous FROM mine m CROSS JOIN orders o ON o.row = m.row WHERE o.previous IS NOT NULL
)
SELECT o.id, s.slug, o.user, o.sku, o.quantity, o.terms, o.amount, o.currency, o.state, o.epoch, o.version,
    o.reserved_at, o.expires_at, o.ended_at, o.reason, o.payment_id, o.replaces
FROM mine m CROSS JOIN orders o ON o.row = m.row JOIN sales s ON s.number = o.sale
WHERE (o.reserved_at, o.id) < (?3, ?4) AND (?5 = '' OR o.state = ?5)
ORDER BY o.reserved_at DESC, o.id DESC
LIMIT ?6
