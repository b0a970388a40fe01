-- Every terms of a sale: a row for each item's price, in order.
-- params: sale
SELECT t.number, t.currency, t.hold_ms, p.price
FROM terms t LEFT JOIN prices p ON p.sale = t.sale AND p.terms = t.number
WHERE t.sale = $1
ORDER BY t.number, p.position
