-- Enters a dead letter, or what has become of a known one.
-- params: id, sale, place, cause, raw, order_id, user, sku, quantity, epoch, terms, taken_at, presented, state, parked_at, closed_at
INSERT INTO dead_letters (id, sale, place, cause, raw, order_id, user, sku, quantity, epoch, terms, taken_at, presented, state,
    parked_at, closed_at)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (id) DO UPDATE SET state = excluded.state, closed_at = excluded.closed_at WHERE sale = excluded.sale
