-- retire: removes a consumer that has nothing claimed.
--
-- KEYS[1] tray
-- ARGV[1] consumer
--
-- Returns {'ok'}; a consumer with claims, or one that is not there, stays as it is.

if redis.call('TYPE', KEYS[1]).ok == 'none' then return {'ok'} end
local pending = redis.pcall('XPENDING', KEYS[1], 'judge', '-', '+', 1, ARGV[1])
if pending.err then
	if string.find(pending.err, 'NOGROUP', 1, true) then return {'ok'} end
	return pending
end
if #pending == 0 then redis.call('XGROUP', 'DELCONSUMER', KEYS[1], 'judge', ARGV[1]) end
return {'ok'}
