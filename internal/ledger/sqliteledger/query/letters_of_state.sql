-- A page of the dead letters in one state, in the order they were parked.
-- params: state, after (id; an unknown one is the beginning), limit
SELECT l.id, l.sale, l.place, l.cause, l.raw, l.order_id, l.user, l.sku, l.quantity, l.epoch, l.terms, l.taken_at,
    l.presented, l.state, l.parked_at, l.closed_at
FROM dead_letters l INDEXED BY dead_letters_state
WHERE l.state = ?1 AND l.row > coalesce((SELECT a.row FROM dead_letters a WHERE a.id = ?2), 0)
ORDER BY l.row
LIMIT ?3
