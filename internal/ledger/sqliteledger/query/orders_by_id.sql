-- Those of some orders that exist. The list is widened by the caller.
-- params: ids
SELECT o.id, s.slug, o.user, o.sku, o.quantity, o.terms, o.amount, o.currency, o.state, o.epoch, o.version,
    o.reserved_at, o.expires_at, o.ended_at, o.reason, o.payment_id, o.replaces
FROM orders o JOIN sales s ON s.number = o.sale
WHERE o.id IN (?)
