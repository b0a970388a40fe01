-- A page of a sale's reserved orders, newest first: among all that wait for
-- payment, which are fewer than the orders of a sale that is over.
-- params: sale, before (reserved_at), before (id), limit
SELECT o.id, s.slug, o.user, o.sku, o.quantity, o.terms, o.amount, o.currency, o.state, o.epoch, o.version,
    o.reserved_at, o.expires_at, o.ended_at, o.reason, o.payment_id, o.replaces
FROM orders o INDEXED BY orders_due JOIN sales s ON s.number = o.sale
WHERE o.state = 'reserved' AND o.sale = ? AND (o.reserved_at, o.id) < (?, ?)
ORDER BY o.reserved_at DESC, o.id DESC
LIMIT ?
