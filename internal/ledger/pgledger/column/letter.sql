-- A dead letter (l), as decodeLetter reads it.
-- params: none
l.id, l.sale, l.origin, l.cause, l.raw, l.order_id, l.user_id, l.sku, l.quantity, l.epoch, l.terms, l.taken_at,
    l.presented::int::bigint, l.state, l.parked_at, l.closed_at
