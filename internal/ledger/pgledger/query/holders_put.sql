-- Writes what users count for in a sale.
-- params: sale, users, live, refunded, unpaid, caps, cool_untils
INSERT INTO holders (sale, user_id, live, refunded, unpaid, cap, cool_until)
SELECT $1, u.user_id, u.live, u.refunded, u.unpaid, u.cap, u.cool_until
FROM unnest($2::text[], $3::bigint[], $4::bigint[], $5::bigint[], $6::bigint[], $7::bigint[])
    AS u (user_id, live, refunded, unpaid, cap, cool_until)
ON CONFLICT (sale, user_id) DO UPDATE SET live = excluded.live, refunded = excluded.refunded, unpaid = excluded.unpaid,
    cap = excluded.cap, cool_until = excluded.cool_until
