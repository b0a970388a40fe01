-- Whether a sale has a reserved order: the first one whose hold ends. Ids of one sale are
-- a range, so the index tells of the orders of others without a look at them.
-- params: before (id), last (id)
SELECT 1
FROM orders o
WHERE o.state = 'reserved' AND o.id > $1 AND o.id <= $2
ORDER BY o.expires_at, o.id
LIMIT 1
