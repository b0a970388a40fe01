-- receive: brings units that another lane has given.
--
-- KEYS[1] meta
-- ARGV[1] epoch         ARGV[2] index of the other lane
-- ARGV[3] number of the transfer                      ARGV[4] item
-- ARGV[5] units
--
-- Returns {'ok'}, also for one that has arrived before; {'cold'}, {'frozen'},
-- {'epoch'}, {'item'} if the lane lacks the item, or {'stale'} if the transfer does
-- not follow the last one that arrived.

local call, format = redis.call, string.format
local meta, received = KEYS[1], 'i' .. ARGV[2]

local m = call('HMGET', meta, 'epoch', 'frozen', 'seq', 'gen', received, 'l' .. ARGV[4], 'x' .. ARGV[4])
if not m[1] then return {'cold'} end
if m[2] then return {'frozen'} end
if m[1] ~= ARGV[1] then return {'epoch'} end
local last, number = tonumber(m[5] or 0), tonumber(ARGV[3])
if number <= last then return {'ok'} end
if number ~= last + 1 then return {'stale'} end
if not m[6] then return {'item'} end

call('HSET', meta, 'l' .. ARGV[4], format('%.0f', m[6] + ARGV[5]), 'x' .. ARGV[4], format('%.0f', (m[7] or 0) + ARGV[5]),
	received, ARGV[3], 'seq', format('%.0f', m[3] + 1), 'gen', format('%.0f', m[4] + 1))
return {'ok'}
