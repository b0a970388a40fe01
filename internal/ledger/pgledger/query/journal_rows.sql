-- Rows of a sale's journal above a number, in order.
-- params: sale, after (seq), limit
SELECT {entry}
FROM journal j
WHERE j.sale = $1 AND j.seq > $2
ORDER BY j.seq
LIMIT $3
