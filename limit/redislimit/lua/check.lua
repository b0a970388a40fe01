-- check: decides calls of Allow, Peek and Wait, one after the other, in one step.
--
-- A call is some rates that are spent together or not at all. All numbers are
-- doubles that hold integers below 2^53; times are microseconds of the server.
--
-- KEYS[i] the count of one rate of one subject, a string of packed doubles; one
--         that is something else counts as none, and is replaced.
--           bucket   time, debt, unit, number of the last turn
--           fixed    beginning of the window, used
--           sliding  beginning of the newest cell, length of a cell, time of the
--                    last call, used in 17 cells, the newest first
-- ARGV[i] what is asked of it, packed as '<Bddddddd':
--           kind: 1 fixed, 2 sliding, 3 token bucket, 4 leaky bucket; + 16 if
--             another rate of the same call follows; + 32 to look only
--           capacity, cost, span of the window or cell in µs,
--           units that a bucket gains in a µs, units of one token,
--           most debt that a call may find, most debt there may be
--
-- Returns one string with '<Bdddddd' for each rate: 1 if it refused; what is used;
-- after what time it would not have refused; after what time more is left; after
-- what time nothing counts; and of buckets the number of the last turn, and of the
-- one before the call.

local call, try, unpack, pack = redis.call, redis.pcall, struct.unpack, struct.pack
local floor, ceil, max, min = math.floor, math.ceil, math.max, math.min
local t = call('TIME')
local now = t[1] * 1000000 + t[2]
local CELLS = 16

-- Something that is no integer from 0 to 2^53 was not written by this script.
local function sound(...)
	for i = 1, select('#', ...) do
		local n = select(i, ...)
		if not (n >= 0 and n <= 9007199254740992) or n ~= floor(n) then return false end
	end
	return true
end

local function read(key, size)
	local s = try('GET', key)
	if type(s) == 'string' and #s == size then return s end
	return nil, s and true -- true: there is something else
end

-- leaves says when n of what a sliding count holds has left the window.
local function leaves(c, n)
	if n <= 0 then return 0 end
	for i = CELLS + 1, 1, -1 do
		n = n - c[i]
		if n <= 0 then return c.at + (CELLS + 2 - i) * c.span - now end
	end
	return 0
end

-- Each of these reads a count and lets time pass, in memory.
local load = {}

load[1] = function(c)
	local s, odd = read(c.key, 16)
	c.at, c.used, c.heal = now, 0, odd
	if s then
		local at, used = unpack('<dd', s)
		if sound(at, used) then
			if at > now then at, c.heal = now, true end -- the clock was set back
			if now - at < c.span then c.at, c.used = at, min(used, c.cap) end
		else
			c.heal = true
		end
	end
	c.after = c.used + c.need > c.cap and c.at + c.span - now or 0
end

load[2] = function(c)
	local s, odd = read(c.key, 160)
	c.at, c.used, c.last, c.heal = now, 0, now, odd
	for i = 1, CELLS + 1 do c[i] = 0 end
	if s then
		local v = {unpack('<dddddddddddddddddddd', s)}
		local at, len, last = v[1], v[2], v[3]
		v[21] = nil
		if not sound(v[1], v[2], v[3], v[4], v[5], v[6], v[7], v[8], v[9], v[10], v[11], v[12], v[13],
			v[14], v[15], v[16], v[17], v[18], v[19], v[20]) then
			c.heal = true
			at = nil
		elseif at > now or last > now then
			at, last, c.heal = min(at, now), min(last, now), true -- the clock was set back
		end
		if at and len ~= c.span then -- the window has changed: what still is in the old one counts
			local sum, gone = 0, floor((now - at) / len)
			for i = 4, 20 do
				if i <= 20 - gone then sum = sum + v[i] end
				v[i] = 0
			end
			v[4], at = min(sum, c.cap), last
		end
		if at then
			local n = floor((now - at) / c.span)
			if n <= CELLS then
				for i = 1, CELLS + 1 - n do
					c[i + n] = v[3 + i]
					c.used = c.used + v[3 + i]
				end
				if c.used > 0 then c.at, c.last = at + n * c.span, last end
			end
		end
	end
	c.after = leaves(c, c.used + c.need - c.cap)
end

load[3] = function(c)
	local s, odd = read(c.key, 32)
	c.used, c.turn, c.heal = 0, 0, odd
	if s then
		local at, debt, unit, turn = unpack('<dddd', s)
		if sound(at, debt, unit, turn) and unit > 0 then
			if unit ~= c.unit then debt = ceil(debt / unit * c.unit) end -- the rate has changed
			if at > now then at, c.heal = now, true end -- the clock was set back
			debt = min(debt, c.top)
			if now - at < ceil(debt / c.gain) then c.used = debt - (now - at) * c.gain end
			c.turn = turn
		else
			c.heal = true
		end
	end
	c.before = c.turn
	c.after = ceil(max(0, c.used - c.room) / c.gain)
end
load[4] = load[3]

-- Each of these writes a count, which then lives for as long as it counts.
local function put(c, left, s)
	if left > 0 then
		call('SET', c.key, s, 'PX', ceil(left / 1000))
	else
		call('DEL', c.key)
	end
end

local save = {}
save[1] = function(c) put(c, c.used > 0 and c.at + c.span - now or 0, pack('<dd', c.at, c.used)) end
save[2] = function(c)
	put(c, leaves(c, c.used), pack('<dddddddddddddddddddd', c.at, c.span, c.last, c[1], c[2], c[3], c[4], c[5], c[6],
		c[7], c[8], c[9], c[10], c[11], c[12], c[13], c[14], c[15], c[16], c[17]))
end
save[3] = function(c) put(c, ceil(c.used / c.gain), pack('<dddd', now, c.used, c.unit, c.turn)) end
save[4] = save[3]

local spend = {}
spend[1] = function(c)
	if c.used == 0 then c.at = now end
	c.used = c.used + c.cost
end
spend[2] = function(c)
	if c.used == 0 then c.at = now end
	c.used, c[1], c.last = c.used + c.cost, c[1] + c.cost, now
end
spend[3] = function(c)
	c.used, c.turn = c.used + c.cost * c.unit, max(c.turn + 1, now)
end
spend[4] = spend[3]

-- Each of these says when more is left, and when nothing counts.
local function window(c)
	local left = c.used > 0 and c.at + c.span - now or 0
	return left, left
end
local times = {window}
times[2] = function(c) return leaves(c, c.used > 0 and max(1, c.used - c.cap + 1) or 0), leaves(c, c.used) end
times[3] = function(c)
	local left = floor(max(0, c.cap * c.unit - c.used) / c.unit)
	return left < c.cap and ceil((c.used - (c.cap - left - 1) * c.unit) / c.gain) or 0, ceil(c.used / c.gain)
end
times[4] = times[3]

local function decide(counts, out)
	local fits = true
	for i = 1, #counts do
		local c = counts[i]
		load[c.kind](c)
		if c.after > 0 then fits = false end
	end
	for i = 1, #counts do
		local c = counts[i]
		local kind = c.kind
		if fits and not c.look then
			spend[kind](c)
			save[kind](c)
		elseif c.heal then
			save[kind](c)
		elseif c.used > 0 and call('PTTL', c.key) == -1 then -- somebody else took it away
			save[kind](c)
		end
		local more, reset = times[kind](c)
		out[#out + 1] = pack('<Bdddddd', c.after > 0 and 1 or 0, c.used, c.after, more, reset, c.turn or 0, c.before or 0)
	end
end

local out, counts = {}, {}
for i = 1, #KEYS do
	local c = {key = KEYS[i]}
	local kind
	kind, c.cap, c.cost, c.span, c.gain, c.unit, c.room, c.top = unpack('<Bddddddd', ARGV[i])
	local follows
	if kind >= 32 then kind, c.look = kind - 32, true end
	if kind >= 16 then kind, follows = kind - 16, true end
	c.kind, c.need = kind, max(1, c.cost)
	counts[#counts + 1] = c
	if not follows then
		decide(counts, out)
		counts = {}
	end
end
return table.concat(out)
