-- The listings of some subjects; LATERAL … LIMIT as in orders_by_id.
-- params: kinds, values
SELECT {listing}
FROM unnest($1::text[], $2::text[]) AS u (kind, value)
    CROSS JOIN LATERAL (SELECT f.* FROM gate_listings f WHERE f.kind = u.kind AND f.value = u.value LIMIT 1) l
