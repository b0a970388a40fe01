-- acquire: gives a mutex to an owner, or a place in its queue.
--
-- Repeating it is harmless: an owner that holds the lock gets the same fence again
-- and a lease that begins anew; one that waits keeps its place.
--
-- KEYS[1] lock, a hash: o owner, f last fence, e end of the lease in ms, m metadata,
--         q if the queue may not be empty, x when the key expires in ms, l who was
--         released last, and by whom; of a free lock o is '' or not there
-- KEYS[2] queue, a list of owners           KEYS[3] waiters, a hash:
--         owner -> "alive until ms:lease ms:metadata"
-- ARGV[1] owner     ARGV[2] lease, ms       ARGV[3] life of the lock's key, ms
-- ARGV[4] life of a place in the queue, ms; 0: do not queue
-- ARGV[5] '1': take what is free although others wait
-- ARGV[6] take over from this owner, or ''  ARGV[7] metadata, or ''
--
-- Returns {1, fence}, or {0, ms left, holder, waiters, 1 if first in the queue}.

local call = redis.call
local owner, lease, life = ARGV[1], ARGV[2] + 0, ARGV[4] + 0
local t = call('TIME')
local us = t[1] * 1000000 + t[2]
local ms = (us - us % 1000) / 1000
local h = call('HMGET', KEYS[1], 'o', 'f', 'e', 'm', 'q', 'x')
local left = h[1] and math.max(h[3] - ms, 0) or 0

if left > 0 and h[1] == owner then
	call('HSET', KEYS[1], 'e', ms + lease)
	return {1, h[2]}
end

local mine = left > 0 and ARGV[6] == h[1]
if left == 0 and ARGV[6] == '' then
	local head = h[5] and call('LINDEX', KEYS[2], 0)
	while head and head ~= owner do -- who has died in the queue is passed over
		local until_ms = string.match(call('HGET', KEYS[3], head) or '', '^%d+')
		if until_ms and until_ms + 0 > ms then break end
		call('LPOP', KEYS[2])
		call('HDEL', KEYS[3], head)
		head = call('LINDEX', KEYS[2], 0)
	end
	mine = not head or head == owner or ARGV[5] == '1'
end

if mine then
	if h[5] and call('HDEL', KEYS[3], owner) == 1 then call('LREM', KEYS[2], 1, owner) end
	local f = math.max((h[2] or 0) + 1, us)
	local e = ms + lease
	if ARGV[7] == '' and not h[4] then
		call('HSET', KEYS[1], 'o', owner, 'f', f, 'e', e)
	else
		call('HSET', KEYS[1], 'o', owner, 'f', f, 'e', e, 'm', ARGV[7])
	end
	-- The key outlives the lease by far; that need not be said each time.
	if not h[6] or h[6] - ms < math.max(ARGV[3] / 2, 2 * lease) then
		call('PEXPIRE', KEYS[1], ARGV[3])
		call('HSET', KEYS[1], 'x', ms + ARGV[3])
	end
	return {1, f}
end

if ARGV[6] ~= '' then return {0, 0, '', 0, 0} end
local first = 0
if life > 0 then
	local place = string.format('%.0f', ms + life) .. ':' .. ARGV[2] .. ':' .. ARGV[7]
	if call('HSET', KEYS[3], owner, place) == 1 then call('RPUSH', KEYS[2], owner) end
	if not h[5] then call('HSET', KEYS[1], 'q', '1') end
	-- What has run out must not come back with the clock beside the new place.
	if h[1] == owner then call('HSET', KEYS[1], 'o', '', 'e', '0') end
	for i = 2, 3 do -- others may want it to live longer
		if call('PTTL', KEYS[i]) < life * 4 then call('PEXPIRE', KEYS[i], life * 4) end
	end
	if call('LINDEX', KEYS[2], 0) == owner then first = 1 end
end
return {0, left, left > 0 and h[1] or '', call('LLEN', KEYS[2]), first}
