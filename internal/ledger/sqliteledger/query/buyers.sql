-- Every user that has an order in a sale.
-- params: sale
SELECT user FROM holders WHERE sale = ? AND newest IS NOT NULL
