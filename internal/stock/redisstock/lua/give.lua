-- give: takes units out of the lane for another one.
--
-- KEYS[1] meta
-- ARGV[1] epoch         ARGV[2] index of the lane     ARGV[3] index of the other one
-- ARGV[4] number of the transfer                      ARGV[5] item
-- ARGV[6] units, at most
--
-- Returns {'ok', number, item, units} of the transfer that is on its way, with no
-- units where none are left; {'cold'}, {'frozen'}, {'epoch'}, or {'wanted'} if the
-- lane wants its units itself.

local call, format = redis.call, string.format
local meta, given = KEYS[1], 'o' .. ARGV[3]

local m = call('HMGET', meta, 'epoch', 'frozen', 'seq', 'gen', given, 'w', 'l' .. ARGV[5], 'x' .. ARGV[5])
if not m[1] then return {'cold'} end
if m[2] then return {'frozen'} end
if m[1] ~= ARGV[1] then return {'epoch'} end

if m[5] then
	local number, item, units = string.match(m[5], '^(%d+) (%d+) (%d+)$')
	if tonumber(number) >= tonumber(ARGV[4]) then return {'ok', tonumber(number), tonumber(item), tonumber(units)} end
end
if m[6] and tonumber(ARGV[2]) < tonumber(ARGV[3]) then
	local t = call('TIME')
	if t[1] * 1000 + t[2] / 1000 < tonumber(m[6]) then return {'wanted'} end
end
local left = tonumber(m[7] or 0)
local units = math.min(left, tonumber(ARGV[6]))
if units <= 0 then return {'ok', tonumber(ARGV[4]), tonumber(ARGV[5]), 0} end

call('HSET', meta, 'l' .. ARGV[5], format('%.0f', left - units), 'x' .. ARGV[5], format('%.0f', (m[8] or 0) - units),
	given, ARGV[4] .. ' ' .. ARGV[5] .. ' ' .. format('%.0f', units), 'seq', format('%.0f', m[3] + 1), 'gen', format('%.0f', m[4] + 1))
return {'ok', tonumber(ARGV[4]), tonumber(ARGV[5]), units}
