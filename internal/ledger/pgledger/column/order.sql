-- An order (o) with the slug of its sale (s), as decodeOrder reads it.
-- params: none
o.id, s.slug, o.user_id, o.sku, o.quantity, o.terms, o.amount, o.currency, o.state, o.epoch, o.version,
    o.reserved_at, o.expires_at, o.ended_at, o.reason, o.payment_id, o.replaces
