-- Replaces title, stock and price of an item; the SKU guards against another item.
-- params: title, stock, price, sale, position, sku
UPDATE items SET title = ?, stock = ?, price = ? WHERE sale = ? AND position = ? AND sku = ?
