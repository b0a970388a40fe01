-- One dead letter.
-- params: id
SELECT {letter}
FROM dead_letters l
WHERE l.id = $1
