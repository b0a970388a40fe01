-- A sale (s) with one of its items (i), as decodeSale and decodeItem read it.
-- params: none
s.number, s.slug, s.key, s.title, s.starts_at, s.ends_at, s.per_user_limit, s.limit_rule, s.hold_ms,
    s.max_unpaid_holds, s.cool_down_ms, s.currency, s.preferred_path, s.state, s.terms, s.version, s.path, s.epoch,
    s.build_token, s.build_at, s.salts, s.created_at, s.updated_at, s.seq, s.head,
    i.sku, i.title, i.stock, i.sold, i.price
