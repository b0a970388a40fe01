-- Those of some users that have a row in a sale; LATERAL … LIMIT as in orders_by_id.
-- params: sale, users
SELECT {holder}
FROM unnest($2::text[]) AS u (user_id)
    CROSS JOIN LATERAL (SELECT f.* FROM holders f WHERE f.sale = $1 AND f.user_id = u.user_id LIMIT 1) h
