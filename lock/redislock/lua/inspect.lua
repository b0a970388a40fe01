-- inspect: looks at a mutex.
--
-- KEYS[1] lock   KEYS[2] queue (as in acquire)
--
-- Returns {waiters, last fence}, followed by {owner, fence, 1, ms left, metadata}
-- if it is held.

local h = redis.call('HMGET', KEYS[1], 'o', 'f', 'e', 'm')
local out = {redis.call('LLEN', KEYS[2]), h[2] or '0'}
local t = redis.call('TIME')
local ms = t[1] * 1000 + (t[2] - t[2] % 1000) / 1000
if h[1] and h[3] - ms > 0 then out[3] = {h[1], h[2], 1, h[3] - ms, h[4] or ''} end
return out
