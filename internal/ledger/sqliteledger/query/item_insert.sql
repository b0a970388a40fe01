-- Enters an item of a new sale.
-- params: sale, position, sku, title, stock, sold, price
INSERT INTO items (sale, position, sku, title, stock, sold, price) VALUES (?, ?, ?, ?, ?, ?, ?)
