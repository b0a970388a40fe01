-- set: gives a frozen lane its rules and what is left.
--
-- KEYS[1] meta          KEYS[2] tray
-- ARGV[1] token         ARGV[2] version       ARGV[3] state: published, paused, closed
-- ARGV[4] starts, ms    ARGV[5] ends, ms      ARGV[6] limit per user
-- ARGV[7] terms         ARGV[8] journal number that is contained
-- ARGV[9] cap of queued slips                 ARGV[10] offset, ms
-- ARGV[11] units sold, over all items
-- ARGV[12…] stock and left, by item in turn
--
-- Returns {'ok'}, or {'frozen'} if the lane is not frozen by the token.

local call = redis.call
local meta = KEYS[1]

local m = call('HMGET', meta, 'frozen', 'seq', 'items', 'queued')
if m[1] ~= ARGV[1] then return {'frozen'} end
local queued = m[4]
if call('XLEN', KEYS[2]) == 0 then queued = 0 end

local items = (#ARGV - 11) / 2
local fields = {'version', ARGV[2], 'state', ARGV[3], 'starts', ARGV[4], 'ends', ARGV[5], 'limit', ARGV[6],
	'terms', ARGV[7], 'applied', ARGV[8], 'cap', ARGV[9], 'offset', ARGV[10], 'taken', ARGV[11], 'returned', 0,
	'queued', queued, 'items', items, 'ready', 1, 'seq', string.format('%.0f', m[2] + 1)}
for i = 0, items - 1 do
	local n = #fields
	fields[n + 1], fields[n + 2] = 's' .. i, ARGV[12 + 2 * i]
	fields[n + 3], fields[n + 4] = 'l' .. i, ARGV[13 + 2 * i]
end
for i = items, m[3] - 1 do call('HDEL', meta, 's' .. i, 'l' .. i) end
for _, name in ipairs(call('HKEYS', meta)) do -- of transfers
	if string.find(name, '^[oix]%d+$') or name == 'w' then call('HDEL', meta, name) end
end
call('HINCRBY', meta, 'steps', 1)
call('HSET', meta, unpack(fields))
return {'ok'}
