-- share_acquire: gives an owner a part of a read-write lock or semaphore, or a
-- place in the queue. Repeating it is harmless.
--
-- KEYS and ARGV[1…6] as in share
-- ARGV[7] lease, ms   ARGV[8] life of a place in the queue, ms; 0: do not queue
-- ARGV[9] '1': take what is free although others wait
-- ARGV[10] take over from this owner, or ''
-- ARGV[11] count      ARGV[12] limit      ARGV[13] metadata, or ''
--
-- Returns {1, fence}, {2} for more than the owner holds, which cannot grow, or
-- {0, ms left, holder, waiters, 1 if first in the queue}.

local lease, life = ARGV[7] + 0, ARGV[8] + 0
local count, limit = ARGV[11] + 0, ARGV[12] + 0
expire()

if call('ZSCORE', KEYS[2], owner) then
	local has, f = match(call('HGET', KEYS[1], owner), '^(%d+):(%d+)')
	if count > has + 0 then return {2} end
	call('ZADD', KEYS[2], ms + lease, owner)
	keep(lease)
	return {1, f}
end

if ARGV[10] ~= '' then
	local has = call('HGET', KEYS[1], ARGV[10])
	if not drop(ARGV[10]) then return {0, 0, '', 0, 0} end
	leave(owner)
	return {1, grant(owner, match(has, '^%d+') + 0, lease, ARGV[13])}
end

local who = head()
if (not who or who == owner or ARGV[9] == '1') and u + count <= limit then
	leave(owner)
	local f = grant(owner, count, lease, ARGV[13])
	hand() -- what waits behind may fit, too
	return {1, f}
end

local first = 0
if life > 0 then
	local place = number(ms + life) .. ':' .. ARGV[7] .. ':' .. ARGV[11] .. ':' .. ARGV[12] .. ':' .. ARGV[13]
	if call('HSET', KEYS[4], owner, place) == 1 then call('RPUSH', KEYS[3], owner) end
	lengthen(KEYS[3], life * 4, life * 4)
	lengthen(KEYS[4], life * 4, life * 4)
	if not who or who == owner then first = 1 end
end
local next = call('ZRANGE', KEYS[2], 0, 0, 'WITHSCORES')
return {0, next[2] and next[2] - ms or 0, next[1] or '', call('LLEN', KEYS[3]), first}
