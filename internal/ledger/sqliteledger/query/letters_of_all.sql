-- A page of all dead letters, in the order they were parked.
-- params: after (id; an unknown one is the beginning), limit
SELECT l.id, l.sale, l.place, l.cause, l.raw, l.order_id, l.user, l.sku, l.quantity, l.epoch, l.terms, l.taken_at,
    l.presented, l.state, l.parked_at, l.closed_at
FROM dead_letters l
WHERE l.row > coalesce((SELECT a.row FROM dead_letters a WHERE a.id = ?), 0)
ORDER BY l.row
LIMIT ?
