-- A page of a sale's dead letters, in the order they were parked; an empty state is any.
-- params: sale, after (id; an unknown one is the beginning), state, limit
SELECT l.id, l.sale, l.place, l.cause, l.raw, l.order_id, l.user, l.sku, l.quantity, l.epoch, l.terms, l.taken_at,
    l.presented, l.state, l.parked_at, l.closed_at
FROM dead_letters l INDEXED BY dead_letters_sale
WHERE l.sale = ?1 AND l.row > coalesce((SELECT a.row FROM dead_letters a WHERE a.id = ?2), 0) AND (?3 = '' OR l.state = ?3)
ORDER BY l.row
LIMIT ?4
