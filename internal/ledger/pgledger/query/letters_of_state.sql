-- A page of the dead letters in one state, in the order they were parked.
-- params: state, after (id; an unknown one is the beginning), limit
SELECT {letter}
FROM dead_letters l
WHERE l.state = $1 AND l.place > coalesce((SELECT a.place FROM dead_letters a WHERE a.id = $2), 0)
ORDER BY l.place
LIMIT $3
