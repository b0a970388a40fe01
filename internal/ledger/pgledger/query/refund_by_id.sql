-- One refund record.
-- params: id
SELECT {refund}
FROM refunds r
WHERE r.id = $1
