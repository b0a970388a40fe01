-- The first authentic dead letter of an order.
-- params: order_id
SELECT l.id, l.sale, l.place, l.cause, l.raw, l.order_id, l.user, l.sku, l.quantity, l.epoch, l.terms, l.taken_at,
    l.presented, l.state, l.parked_at, l.closed_at
FROM dead_letters l INDEXED BY dead_letters_order
WHERE l.order_id = ?
ORDER BY l.row
LIMIT 1
