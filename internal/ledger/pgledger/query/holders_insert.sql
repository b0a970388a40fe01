-- Enters users that no row counts for in a sale yet.
-- params: sale, users, live, refunded, unpaid, caps, cool_untils
INSERT INTO holders (sale, user_id, live, refunded, unpaid, cap, cool_until)
SELECT $1, u.user_id, u.live, u.refunded, u.unpaid, u.cap, u.cool_until
FROM unnest($2::text[], $3::bigint[], $4::bigint[], $5::bigint[], $6::bigint[], $7::bigint[])
    AS u (user_id, live, refunded, unpaid, cap, cool_until)
