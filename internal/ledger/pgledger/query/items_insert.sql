-- Enters the items of a new sale.
-- params: sale, positions, skus, titles, stocks, sold, prices
INSERT INTO items (sale, position, sku, title, stock, sold, price)
SELECT $1, u.position, u.sku, u.title, u.stock, u.sold, u.price
FROM unnest($2::bigint[], $3::text[], $4::text[], $5::bigint[], $6::bigint[], $7::bigint[])
    AS u (position, sku, title, stock, sold, price)
