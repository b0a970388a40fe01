-- Enters an order.
-- params: id, sale, user, sku, quantity, terms, amount, currency, state, epoch, version, reserved_at, expires_at, ended_at, reason, payment_id, replaces, previous
INSERT INTO orders (id, sale, user, sku, quantity, terms, amount, currency, state, epoch, version, reserved_at, expires_at,
    ended_at, reason, payment_id, replaces, previous)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
