-- The sale that has this slug now: a row for each of its items, in order.
-- params: slug
SELECT s.number, s.slug, s.key, s.title, s.starts_at, s.ends_at, s.per_user_limit, s.limit_rule, s.hold_ms,
    s.max_unpaid_holds, s.cool_down_ms, s.currency, s.state, s.terms, s.version, s.path, s.epoch, s.preferred_path,
    s.build_token, s.build_at, s.salts, s.created_at, s.updated_at, s.seq, s.head, i.sku, i.title, i.stock, i.sold, i.price
FROM sales s LEFT JOIN items i ON i.sale = s.number
WHERE s.slug = ? AND s.state <> 'deleted'
ORDER BY i.position
