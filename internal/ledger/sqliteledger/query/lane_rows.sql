-- Rows of a sale's journal above a number that a lane must learn of, in order;
-- the kinds are those that ledger.Kind.ForLane leaves out.
-- params: sale, after (seq), limit
SELECT seq, at, kind, order_id, body, hash
FROM journal INDEXED BY journal_lane
WHERE sale = ? AND seq > ?
    AND kind <> 'order.reserved' AND kind <> 'order.paid' AND kind <> 'refund.required' AND kind <> 'refund.done'
ORDER BY seq
LIMIT ?
