-- How many listings are in force; each part is a stretch of the index.
-- params: now
SELECT (SELECT count(*) FROM gate_listings WHERE expires_at = 0 AND dropped = 0)
    + (SELECT count(*) FROM gate_listings WHERE expires_at > ? AND dropped = 0)
