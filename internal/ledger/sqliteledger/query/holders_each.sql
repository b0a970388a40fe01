-- Every holder of a sale in order of user.
-- params: sale
SELECT h.user, h.live, h.refunded, h.unpaid, h.cap, h.cool_until, h.newest
FROM holders h
WHERE h.sale = ?
ORDER BY h.user
