-- A page of a sale's dead letters, in the order they were parked; an empty state is any.
-- params: sale, after (id; an unknown one is the beginning), state, limit
SELECT {letter}
FROM dead_letters l
WHERE l.sale = $1 AND l.place > coalesce((SELECT a.place FROM dead_letters a WHERE a.id = $2), 0) AND ($3 = '' OR l.state = $3)
ORDER BY l.place
LIMIT $4
