-- A page of all dead letters, in the order they were parked.
-- params: after (id; an unknown one is the beginning), limit
SELECT {letter}
FROM dead_letters l
WHERE l.place > coalesce((SELECT a.place FROM dead_letters a WHERE a.id = $1), 0)
ORDER BY l.place
LIMIT $2
