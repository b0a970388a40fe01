-- The first authentic dead letter of an order.
-- params: order_id
SELECT {letter}
FROM dead_letters l
WHERE l.order_id = $1
ORDER BY l.place
LIMIT 1
