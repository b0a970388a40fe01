-- slot: acquires, extends, releases or counts the slots of one rate of one subject.
--
-- KEYS[1] slots, a sorted set: holder by the end of its lease, µs of the server; a
--         key of another type counts as none, and is replaced
-- ARGV[1] 'acquire', 'extend', 'release' or 'peek'
-- ARGV[2] holder, or ''    ARGV[3] how many slots there are    ARGV[4] lease, µs
--
-- Acquiring again as the same holder extends. Extending and releasing what is not
-- held does nothing. Slots that end later than a lease from now were left by a
-- clock that was set back, or by a longer lease; who acquires or extends cuts them
-- to one lease.
--
-- Returns {1 if it was done, slots held, after what time one is free (0: now),
-- after what time the first ends, after what time the last ends}, in µs.

local call = redis.call
local key, op, id, quota, lease = KEYS[1], ARGV[1], ARGV[2], ARGV[3] + 0, ARGV[4] + 0
local t = call('TIME')
local now = t[1] * 1000000 + t[2]

local kind = call('TYPE', key).ok
if kind ~= 'zset' and kind ~= 'none' then call('DEL', key) end
call('ZREMRANGEBYSCORE', key, '-inf', string.format('%.0f', now))
if op == 'acquire' or op == 'extend' then
	local late = call('ZRANGEBYSCORE', key, string.format('(%.0f', now + lease), '+inf')
	for i = 1, #late do call('ZADD', key, string.format('%.0f', now + lease), late[i]) end
end

local done = 0
local mine = id ~= '' and call('ZSCORE', key, id)
if op == 'release' then
	done = call('ZREM', key, id)
elseif (op == 'extend' and mine) or (op == 'acquire' and (mine or call('ZCARD', key) < quota)) then
	call('ZADD', key, string.format('%.0f', now + lease), id)
	done = 1
end

local held = call('ZCARD', key)
if held == 0 then return {done, 0, 0, 0, 0} end
local function ends(i) return call('ZRANGE', key, i, i, 'WITHSCORES')[2] - now end
local last = ends(-1)
call('PEXPIRE', key, math.ceil(last / 1000))
local free = held >= quota and ends(held - quota) or 0
return {done, held, free, ends(math.max(0, held - quota)), last}
