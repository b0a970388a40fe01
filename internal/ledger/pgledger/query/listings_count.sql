-- How many listings are in force; each part is a stretch of the index.
-- params: now
SELECT (SELECT count(*) FROM gate_listings l WHERE l.expires_at = 0 AND NOT l.dropped)
    + (SELECT count(*) FROM gate_listings l WHERE l.expires_at > $1 AND NOT l.dropped)
