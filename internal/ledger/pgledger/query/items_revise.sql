-- Replaces titles, stocks and prices of items; the SKU guards against another item.
-- params: sale, positions, skus, titles, stocks, prices
UPDATE items i SET title = u.title, stock = u.stock, price = u.price
FROM unnest($2::bigint[], $3::text[], $4::text[], $5::bigint[], $6::bigint[]) AS u (position, sku, title, stock, price)
WHERE i.sale = $1 AND i.position = u.position AND i.sku = u.sku
