-- Replaces the rules of a sale.
-- params: sale, slug, title, starts_at, ends_at, per_user_limit, limit_rule, hold_ms, max_unpaid_holds, cool_down_ms, currency, preferred_path, state, terms, version, path, epoch, build_token, build_at, salts, updated_at
UPDATE sales
SET slug = $2, title = $3, starts_at = $4, ends_at = $5, per_user_limit = $6, limit_rule = $7, hold_ms = $8,
    max_unpaid_holds = $9, cool_down_ms = $10, currency = $11, preferred_path = $12, state = $13, terms = $14, version = $15,
    path = $16, epoch = $17, build_token = $18, build_at = $19, salts = $20, updated_at = $21
WHERE number = $1
