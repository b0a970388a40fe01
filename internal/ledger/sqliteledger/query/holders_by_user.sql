-- Those of some users that have a row in a sale. The list is widened by the caller.
-- params: sale, users
SELECT h.user, h.live, h.refunded, h.unpaid, h.cap, h.cool_until, h.newest
FROM holders h
WHERE h.sale = ? AND h.user IN (?)
