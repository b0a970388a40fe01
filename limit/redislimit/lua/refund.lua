-- refund: gives costs back to rates of one subject, as far as they still count.
--
-- Of a sliding window they are taken from what would leave first, since nobody knows
-- when they were spent. A turn of a leaky bucket is given back only if its number is
-- still the last one.
--
-- KEYS[i] a count, as in check.lua, whatever rate it has followed last
-- ARGV[i] '<Bddd': kind as in check.lua; cost; number of the turn; number of the
--         one before
--
-- Returns how many counts have changed.

local call, unpack, pack = redis.call, struct.unpack, struct.pack

local function back(s, arg)
	local kind, cost, turn, before = unpack('<Bddd', arg)
	if kind == 1 and #s == 16 then
		local at, used = unpack('<dd', s)
		return pack('<dd', at, math.max(0, used - cost))
	elseif kind == 2 and #s == 160 then
		local v = {unpack('<dddddddddddddddddddd', s)}
		local t = call('TIME')
		local gone = math.floor((t[1] * 1000000 + t[2] - v[1]) / v[2])
		for i = 20 - math.max(0, gone), 4, -1 do
			local n = math.min(cost, v[i])
			v[i], cost = v[i] - n, cost - n
		end
		return pack('<dddddddddddddddddddd', v[1], v[2], v[3], v[4], v[5], v[6], v[7], v[8], v[9], v[10], v[11], v[12],
			v[13], v[14], v[15], v[16], v[17], v[18], v[19], v[20])
	elseif (kind == 3 or kind == 4) and #s == 32 then
		local at, debt, unit, last = unpack('<dddd', s)
		if kind == 4 then
			if last ~= turn then return nil end
			last = before
		end
		return pack('<dddd', at, math.max(0, debt - cost * unit), unit, last)
	end
end

local n = 0
for i = 1, #KEYS do
	local s = redis.pcall('GET', KEYS[i])
	s = type(s) == 'string' and back(s, ARGV[i])
	if s then
		call('SET', KEYS[i], s, 'KEEPTTL')
		n = n + 1
	end
end
return n
