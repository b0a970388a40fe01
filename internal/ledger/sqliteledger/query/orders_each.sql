-- Every order of a sale in order of id: a range of ids.
-- params: first (id), last (id)
SELECT o.id, s.slug, o.user, o.sku, o.quantity, o.terms, o.amount, o.currency, o.state, o.epoch, o.version,
    o.reserved_at, o.expires_at, o.ended_at, o.reason, o.payment_id, o.replaces
FROM orders o INDEXED BY orders_id JOIN sales s ON s.number = o.sale
WHERE o.id BETWEEN ? AND ?
ORDER BY o.id
