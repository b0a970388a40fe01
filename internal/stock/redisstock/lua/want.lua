-- want: keeps the lane's units from lanes with a higher index for a while.
--
-- KEYS[1] meta
-- ARGV[1] epoch         ARGV[2] for how long, ms; 0 ends it
--
-- Returns {'ok'}, {'cold'}, {'frozen'} or {'epoch'}.

local call = redis.call
local m = call('HMGET', KEYS[1], 'epoch', 'frozen')
if not m[1] then return {'cold'} end
if m[2] then return {'frozen'} end
if m[1] ~= ARGV[1] then return {'epoch'} end
if ARGV[2] == '0' then
	call('HDEL', KEYS[1], 'w')
else
	local t = call('TIME')
	call('HSET', KEYS[1], 'w', string.format('%.0f', t[1] * 1000 + (t[2] - t[2] % 1000) / 1000 + ARGV[2]))
end
return {'ok'}
