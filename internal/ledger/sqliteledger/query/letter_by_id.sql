-- One dead letter.
-- params: id
SELECT l.id, l.sale, l.place, l.cause, l.raw, l.order_id, l.user, l.sku, l.quantity, l.epoch, l.terms, l.taken_at,
    l.presented, l.state, l.parked_at, l.closed_at
FROM dead_letters l
WHERE l.id = ?
