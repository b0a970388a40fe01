-- Deletes listings that ended before an instant, longest ago first.
-- params: before, limit
DELETE FROM gate_listings
WHERE version IN (
    SELECT version FROM gate_listings WHERE expires_at > 0 AND expires_at < ? ORDER BY expires_at LIMIT ?
)
