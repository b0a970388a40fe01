-- Rows of a sale's journal above a number that a lane must learn of, in order;
-- the kinds are those that ledger.Kind.ForLane leaves out.
-- params: sale, after (seq), limit
SELECT {entry}
FROM journal j
WHERE j.sale = $1 AND j.seq > $2
    AND j.kind <> 'order.reserved' AND j.kind <> 'order.paid' AND j.kind <> 'refund.required' AND j.kind <> 'refund.done'
ORDER BY j.seq
LIMIT $3
