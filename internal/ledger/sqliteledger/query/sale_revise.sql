-- Replaces the rules and the standing of a sale.
-- params: slug, title, starts_at, ends_at, per_user_limit, limit_rule, hold_ms, max_unpaid_holds, cool_down_ms, currency, preferred_path, state, terms, version, path, epoch, build_token, build_at, salts, updated_at, sale
UPDATE sales
SET slug = ?, title = ?, starts_at = ?, ends_at = ?, per_user_limit = ?, limit_rule = ?, hold_ms = ?, max_unpaid_holds = ?,
    cool_down_ms = ?, currency = ?, preferred_path = ?, state = ?, terms = ?, version = ?, path = ?, epoch = ?, build_token = ?,
    build_at = ?, salts = ?, updated_at = ?
WHERE number = ?
