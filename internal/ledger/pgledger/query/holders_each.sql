-- The next holders of a sale in order of user.
-- params: sale, after (user), limit
SELECT {holder}
FROM holders h
WHERE h.sale = $1 AND h.user_id > $2
ORDER BY h.user_id
LIMIT $3
