-- release: gives back what an owner holds and hands it to the first in the queue,
-- in one step; an owner that only waits leaves the queue, and if the lock is free,
-- it goes to the next.
--
-- KEYS[1] lock     KEYS[2] queue     KEYS[3] waiters     (as in acquire)
-- KEYS[4] the channel of the name
-- ARGV[1] owner    ARGV[2] how the owners of the releasing Locker begin
-- ARGV[3] the longest lease of a grant to another Locker, ms, until it renews
-- ARGV[4] life of the lock's key, ms
-- ARGV[5] '1': leave the lock free and only wake the first in the queue
-- ARGV[6] SPUBLISH to the channel of the name, or PUBLISH to that of a Locker:
-- ARGV[7] what the channels of Lockers begin with
-- ARGV[8] the least that the last fence shall be afterwards
-- ARGV[9] owner and releasing Locker, to know a repetition by
--
-- Returns {1} released, now or by the last release, {0} nothing was held; {…, owner,
-- fence} if the lock was handed to an owner of the same Locker.

local call = redis.call
local owner, released = ARGV[1], 0
local h = call('HMGET', KEYS[1], 'o', 'f', 'e', 'q')
local t = call('TIME')
local us = t[1] * 1000000 + t[2]
local ms = (us - us % 1000) / 1000
local left = h[1] and h[3] - ms or 0

if h[1] ~= owner then
	if call('HDEL', KEYS[3], owner) == 0 then
		return {call('HGET', KEYS[1], 'l') == ARGV[9] and 1 or 0}
	end
	call('LREM', KEYS[2], 1, owner)
	if left > 0 then return {0} end -- else this one may have been the one to take it
elseif left > 0 then
	released = 1
	if ARGV[8] + 0 > h[2] + 0 then
		h[2] = ARGV[8]
		call('HSET', KEYS[1], 'f', h[2])
	end
	call('HSET', KEYS[1], 'o', '', 'e', '0', 'l', ARGV[9])
	if not h[4] then return {1} end -- nobody waits
else
	call('HSET', KEYS[1], 'o', '', 'e', '0') -- nor may it come back with the clock
end

local function tell(who)
	local channel = KEYS[4]
	if ARGV[6] == 'PUBLISH' then channel = ARGV[7] .. string.match(who, '^[^.]*') end
	redis.pcall(ARGV[6], channel, who) -- without the right to, the waiter asks in time
end

if ARGV[5] == '1' then
	local first = h[4] and call('LINDEX', KEYS[2], 0)
	if first then tell(first) end
	return {released}
end

local next, place = h[4] and call('LPOP', KEYS[2]), nil
while next do -- who has died in the queue is passed over
	place = {string.match(call('HGET', KEYS[3], next) or '', '^(%d+):(%d+):(.*)$')}
	call('HDEL', KEYS[3], next)
	if place[1] and place[1] + 0 > ms then break end
	next = call('LPOP', KEYS[2])
end
if not next then
	call('HDEL', KEYS[1], 'q')
	return {released}
end
local here = string.sub(next, 1, #ARGV[2]) == ARGV[2]
local lease, life = place[2] + 0, math.max(ARGV[4], 2 * place[2])
local x = call('HGET', KEYS[1], 'x')
if not x or x - ms < math.max(ARGV[4] / 2, 2 * place[2]) then
	x = ms + life
	call('PEXPIRE', KEYS[1], life)
end
if not here then lease = math.min(lease, ARGV[3] + 0) end
local f = math.max((h[2] or 0) + 1, us)
call('HSET', KEYS[1], 'o', next, 'f', f, 'e', ms + lease, 'm', place[3], 'x', x)
if here then return {released, next, f} end
tell(next)
return {released}
