-- One payment.
-- params: id
SELECT {payment}
FROM payments p
WHERE p.id = $1
