-- share_release: gives back what an owner holds of a read-write lock or semaphore
-- and hands it on, or lets a waiter leave the queue, which may be what others
-- behind it wait for.
--
-- KEYS and ARGV[1…6] as in share
-- ARGV[7] '1': leave it free and only wake the first in the queue
-- ARGV[8] owner and releasing Locker, to know a repetition by
--
-- Returns {1 if released, now or by the last release, owner, fence, …}: what was
-- handed to owners of the same Locker.

expire()
local out = {0}
if drop(owner) then
	out[1] = 1
	call('HSET', KEYS[1], 'l', ARGV[8])
elseif not leave(owner) then
	if call('HGET', KEYS[1], 'l') == ARGV[8] then out[1] = 1 end
	return out
end
if ARGV[7] == '1' then
	local who = head()
	if who then tell(who) end
	return out
end
return hand(out)
