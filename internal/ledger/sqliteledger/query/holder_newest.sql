-- Notes a user's newest order where it counts for nothing else.
-- params: sale, user, newest
INSERT INTO holders (sale, user, live, refunded, unpaid, cap, cool_until, newest) VALUES (?, ?, 0, 0, 0, 0, 0, ?)
ON CONFLICT (sale, user) DO UPDATE SET newest = excluded.newest
