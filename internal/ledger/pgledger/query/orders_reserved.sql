-- A page of a sale's reserved orders, newest first: among all that wait for
-- payment, which are fewer than the orders of a sale that is over. "+ 0" keeps the
-- index of the sale's orders out of it.
-- params: sale, before (reserved_at), before (id), limit
SELECT {order}
FROM orders o JOIN sales s ON s.number = o.sale
WHERE o.state = 'reserved' AND o.sale + 0 = $1 AND (o.reserved_at, o.id) < ($2, $3)
ORDER BY o.reserved_at DESC, o.id DESC
LIMIT $4
