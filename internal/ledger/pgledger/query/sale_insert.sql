-- Enters a sale and gives it a number; nothing happens while the slug is taken.
-- params: slug, key, title, starts_at, ends_at, per_user_limit, limit_rule, hold_ms, max_unpaid_holds, cool_down_ms, currency, preferred_path, state, terms, version, path, epoch, build_token, build_at, salts, created_at, updated_at, seq, head
INSERT INTO sales (slug, key, title, starts_at, ends_at, per_user_limit, limit_rule, hold_ms, max_unpaid_holds, cool_down_ms,
    currency, preferred_path, state, terms, version, path, epoch, build_token, build_at, salts, created_at, updated_at, seq, head)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, $22, $23, $24)
ON CONFLICT (slug) WHERE state <> 'deleted' DO NOTHING
RETURNING number
