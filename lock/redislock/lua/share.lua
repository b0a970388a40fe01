-- share: what the scripts of read-write locks and semaphores have in common. It
-- stands in front of each of them.
--
-- KEYS[1] the sum, a hash: f last fence, u units held, l who was released last,
--         and by whom; and for each holder its owner -> "count:fence:metadata"
-- KEYS[2] holders, a sorted set: owner -> end of the lease in ms
-- KEYS[3] queue, a list of owners     KEYS[4] waiters, a hash:
--         owner -> "alive until ms:lease ms:count:limit:metadata"
-- KEYS[5] the channel of the name
-- ARGV[1] owner    ARGV[2] how the owners of the calling Locker begin
-- ARGV[3] the longest lease of a grant to another Locker, ms, until it renews
-- ARGV[4] life of the keys, ms
-- ARGV[5] SPUBLISH to the channel of the name, or PUBLISH to that of a Locker:
-- ARGV[6] what the channels of Lockers begin with

local call, match, format = redis.call, string.match, string.format
local owner = ARGV[1]
local t = call('TIME')
local us = t[1] * 1000000 + t[2]
local ms = (us - us % 1000) / 1000
local u = tonumber(call('HGET', KEYS[1], 'u') or '0')

local function number(n) return format('%.0f', n) end

-- lengthen lets a key live for a time, or longer where others want that.
local function lengthen(key, least, life)
	if call('PTTL', key) < least then call('PEXPIRE', key, number(life)) end
end

-- keep lets what a lease needs outlive it by far.
local function keep(lease)
	local life = math.max(ARGV[4] + 0, 2 * lease)
	local least = math.max(ARGV[4] / 2, 2 * lease)
	lengthen(KEYS[1], least, life)
	lengthen(KEYS[2], least, life)
end

local function drop(who)
	if call('ZREM', KEYS[2], who) == 0 then return false end
	u = u - match(call('HGET', KEYS[1], who), '^%d+')
	call('HDEL', KEYS[1], who)
	call('HSET', KEYS[1], 'u', number(u))
	return true
end

local function expire()
	for _, who in ipairs(call('ZRANGEBYSCORE', KEYS[2], '-inf', ms)) do drop(who) end
end

local function fence() return number(math.max((call('HGET', KEYS[1], 'f') or 0) + 1, us)) end

local function grant(who, count, lease, metadata)
	local f = fence()
	u = u + count
	call('HSET', KEYS[1], 'f', f, 'u', number(u), who, number(count) .. ':' .. f .. ':' .. metadata)
	call('ZADD', KEYS[2], ms + lease, who)
	keep(lease)
	return f
end

local function leave(who)
	if call('HDEL', KEYS[4], who) == 0 then return false end
	call('LREM', KEYS[3], 1, who)
	return true
end

-- head returns the first in the queue that is alive, and its place.
local function head()
	while true do
		local who = call('LINDEX', KEYS[3], 0)
		if not who then return nil end
		local alive, lease, count, limit, metadata =
			match(call('HGET', KEYS[4], who) or '', '^(%d+):(%d+):(%d+):(%d+):(.*)$')
		if alive and alive + 0 > ms then
			return who, {lease = lease + 0, count = count + 0, limit = limit + 0, metadata = metadata}
		end
		call('LPOP', KEYS[3])
		call('HDEL', KEYS[4], who)
	end
end

local function tell(who)
	local channel = KEYS[5]
	if ARGV[5] == 'PUBLISH' then channel = ARGV[6] .. match(who, '^[^.]*') end
	redis.pcall(ARGV[5], channel, who) -- without the right to, the waiter asks in time
end

-- hand grants what is free to the first in the queue, as far as it goes, and
-- returns {owner, fence, …} of those that belong to the calling Locker.
local function hand(out)
	local who, place = head()
	while who and u + place.count <= place.limit do
		leave(who)
		if out and string.sub(who, 1, #ARGV[2]) == ARGV[2] then
			out[#out + 1] = who
			out[#out + 1] = grant(who, place.count, place.lease, place.metadata)
		else
			grant(who, place.count, math.min(place.lease, ARGV[3] + 0), place.metadata)
			tell(who)
		end
		who, place = head()
	end
	return out
end
