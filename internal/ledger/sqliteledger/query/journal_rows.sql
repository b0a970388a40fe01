-- Rows of a sale's journal above a number, in order.
-- params: sale, after (seq), limit
SELECT seq, at, kind, order_id, body, hash
FROM journal
WHERE sale = ? AND seq > ?
ORDER BY seq
LIMIT ?
