-- done: removes judged entries from the tray. Of a repeat nothing is counted.
--
-- KEYS[1] meta          KEYS[2] tray
-- ARGV    id of an entry and its number of slips, in turn
--
-- Returns {'ok', how many entries were removed}.

local call = redis.call
local meta, tray = KEYS[1], KEYS[2]

local kind = call('TYPE', tray).ok
if kind == 'none' then return {'ok', 0} end
if kind ~= 'stream' then return redis.error_reply('WRONGTYPE the tray is a ' .. kind) end
local m = call('HMGET', meta, 'queued', 'seq')

local removed, slips = 0, 0
for i = 1, #ARGV, 2 do
	call('XACK', tray, 'judge', ARGV[i])
	if call('XDEL', tray, ARGV[i]) == 1 then
		removed = removed + 1
		slips = slips + tonumber(ARGV[i + 1])
	end
end
if removed > 0 and m[1] then
	local queued = math.max(0, m[1] - slips)
	if call('XLEN', tray) == 0 then queued = 0 end
	call('HSET', meta, 'queued', string.format('%.0f', queued), 'seq', string.format('%.0f', m[2] + 1))
end
return {'ok', removed}
