-- Those of some users that have a row in a sale.
-- params: sale, users
SELECT {holder}
FROM holders h
WHERE h.sale = $1 AND h.user_id = ANY ($2::text[])
