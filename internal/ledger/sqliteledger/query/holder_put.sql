-- Writes what a user counts for; without a newer order the newest stays.
-- params: sale, user, live, refunded, unpaid, cap, cool_until, newest
INSERT INTO holders (sale, user, live, refunded, unpaid, cap, cool_until, newest) VALUES (?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (sale, user) DO UPDATE SET live = excluded.live, refunded = excluded.refunded, unpaid = excluded.unpaid,
    cap = excluded.cap, cool_until = excluded.cool_until, newest = coalesce(excluded.newest, newest)
