-- sync: brings the rules of a sale's version to the lane. Stock travels as a
-- total, so left moves by what the total has moved.
--
-- KEYS[1] meta
-- ARGV[1] epoch         ARGV[2] version       ARGV[3] state: published, paused, closed
-- ARGV[4] starts, ms    ARGV[5] ends, ms      ARGV[6] limit per user
-- ARGV[7] terms         ARGV[8…] stock by item
--
-- Returns {'ok', the lane's version}, {'cold'}, {'frozen'}, {'epoch'}, or {'item'}
-- if there are fewer items than the lane has.

local call, format = redis.call, string.format
local meta = KEYS[1]

local m = call('HMGET', meta, 'epoch', 'frozen', 'version', 'seq', 'gen', 'items')
if not m[1] then return {'cold'} end
if m[2] then return {'frozen'} end
if m[1] ~= ARGV[1] then return {'epoch'} end
if tonumber(ARGV[2]) <= tonumber(m[3]) then return {'ok', m[3]} end
local items, old = #ARGV - 7, tonumber(m[6])
if items < old then return {'item'} end

local fields = {'version', ARGV[2], 'state', ARGV[3], 'starts', ARGV[4], 'ends', ARGV[5], 'limit', ARGV[6],
	'terms', ARGV[7], 'items', items, 'seq', format('%.0f', m[4] + 1), 'gen', format('%.0f', m[5] + 1)}
for i = 0, items - 1 do
	local total, left = ARGV[8 + i], ARGV[8 + i]
	if i < old then
		local v = call('HMGET', meta, 's' .. i, 'l' .. i)
		left = format('%.0f', v[2] + (total - v[1]))
	end
	local n = #fields
	fields[n + 1], fields[n + 2], fields[n + 3], fields[n + 4] = 's' .. i, total, 'l' .. i, left
end
call('HSET', meta, unpack(fields))
return {'ok', ARGV[2]}
