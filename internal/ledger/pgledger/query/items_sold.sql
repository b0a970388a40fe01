-- Adds to what items have sold; the table holds 0 <= sold <= stock.
-- params: sale, positions, units
UPDATE items i SET sold = i.sold + u.units
FROM unnest($2::bigint[], $3::bigint[]) AS u (position, units)
WHERE i.sale = $1 AND i.position = u.position
