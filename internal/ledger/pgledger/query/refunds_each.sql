-- Every refund record for an order of a sale, in the order they came to be. "+ 0"
-- keeps the planner from walking all records in that order.
-- params: before (order id), last (order id)
SELECT {refund}
FROM refunds r
WHERE r.order_id > $1 AND r.order_id <= $2
ORDER BY r.place + 0
