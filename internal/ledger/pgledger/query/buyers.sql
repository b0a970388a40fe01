-- Every user that has an order in a sale.
-- params: sale
SELECT DISTINCT o.user_id FROM orders o WHERE o.sale = $1
