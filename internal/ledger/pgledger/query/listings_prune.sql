-- Deletes listings that ended before an instant, longest ago first. ANY of an ARRAY
-- leaves the planner one way, a look-up by version for each.
-- params: before, limit
DELETE FROM gate_listings
WHERE version = ANY (ARRAY (
    SELECT l.version FROM gate_listings l
    WHERE l.expires_at > 0 AND l.expires_at < $1
    ORDER BY l.expires_at
    LIMIT $2
))
RETURNING version
