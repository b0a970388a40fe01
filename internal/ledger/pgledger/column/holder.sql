-- What a user counts for (h), as decodeHolder reads it.
-- params: none
h.user_id, h.live, h.refunded, h.unpaid, h.cap, h.cool_until
