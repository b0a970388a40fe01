-- Enters the prices of the items under new terms.
-- params: sale, terms, positions, prices
INSERT INTO prices (sale, terms, position, price)
SELECT $1, $2, u.position, u.price
FROM unnest($3::bigint[], $4::bigint[]) AS u (position, price)
