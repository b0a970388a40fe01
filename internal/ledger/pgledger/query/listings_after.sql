-- A page of the listings that were changed after a version.
-- params: after (version), limit
SELECT {listing}
FROM gate_listings l
WHERE l.version > $1
ORDER BY l.version
LIMIT $2
