-- renew: lets a mutex's lease begin anew. It never creates and never adds.
--
-- KEYS[1] lock (as in acquire)
-- ARGV[1] owner   ARGV[2] lease, ms   ARGV[3] life of the lock's key, ms
-- ARGV[4] the least that the last fence shall be afterwards
--
-- Returns 1 renewed, 0 not held.

local call = redis.call
local h = call('HMGET', KEYS[1], 'o', 'f', 'e')
if h[1] ~= ARGV[1] then return 0 end
local t = call('TIME')
local ms = t[1] * 1000 + (t[2] - t[2] % 1000) / 1000
if h[3] + 0 <= ms then return 0 end
local f = h[2]
if ARGV[4] + 0 > f + 0 then f = ARGV[4] end
call('HSET', KEYS[1], 'e', string.format('%.0f', ms + ARGV[2]), 'f', f, 'x', string.format('%.0f', ms + ARGV[3]))
call('PEXPIRE', KEYS[1], ARGV[3])
return 1
