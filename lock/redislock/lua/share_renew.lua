-- share_renew: lets a lease of a read-write lock or semaphore begin anew. It
-- never creates and never adds.
--
-- KEYS and ARGV[1…6] as in share   ARGV[7] lease, ms
--
-- Returns 1 renewed, 0 not held.

local e = call('ZSCORE', KEYS[2], owner)
if not e or e + 0 <= ms then return 0 end
call('ZADD', KEYS[2], ms + ARGV[7], owner)
call('PEXPIRE', KEYS[1], ARGV[4])
call('PEXPIRE', KEYS[2], ARGV[4])
return 1
