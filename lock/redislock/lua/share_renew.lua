-- share_renew: lets a lease of a read-write lock or semaphore begin anew. Where
-- less is needed than the owner holds, it gives the rest back and hands it on. It
-- never creates and never adds.
--
-- KEYS and ARGV[1…6] as in share   ARGV[7] lease, ms   ARGV[8] count
--
-- Returns 1 renewed, 0 not held.

local e = call('ZSCORE', KEYS[2], owner)
if not e or e + 0 <= ms then return 0 end
call('ZADD', KEYS[2], ms + ARGV[7], owner)
keep(ARGV[7] + 0)
local has, rest = match(call('HGET', KEYS[1], owner), '^(%d+)(:.*)$')
if ARGV[8] + 0 < has + 0 then
	expire()
	u = u - has + ARGV[8]
	call('HSET', KEYS[1], 'u', number(u), owner, ARGV[8] .. rest)
	hand()
end
return 1
