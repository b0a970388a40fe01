-- renew: lets a mutex's lease begin anew. It never creates and never adds.
--
-- KEYS[1] lock (as in acquire)
-- ARGV[1] owner   ARGV[2] lease, ms   ARGV[3] life of the lock's key, ms
-- ARGV[4] the least that the last fence shall be afterwards
--
-- Returns 1 renewed, 0 not held.

local call = redis.call
local h = call('HMGET', KEYS[1], 'o', 'f', 'e', 'x')
if h[1] ~= ARGV[1] then return 0 end
local t = call('TIME')
local ms = t[1] * 1000 + (t[2] - t[2] % 1000) / 1000
if h[3] + 0 <= ms then return 0 end
local f, lease = h[2], ARGV[2] + 0
if ARGV[4] + 0 > f + 0 then f = ARGV[4] end
call('HSET', KEYS[1], 'e', ms + lease, 'f', f)
if not h[4] or h[4] - ms < math.max(ARGV[3] / 2, 2 * lease) then
	call('PEXPIRE', KEYS[1], ARGV[3])
	call('HSET', KEYS[1], 'x', ms + ARGV[3])
end
return 1
