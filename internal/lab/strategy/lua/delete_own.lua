-- delete_own: deletes a lock if it is still its owner's.
--
-- KEYS[1] the lock, whose value is its owner    ARGV[1] who lets go
--
-- Returns 1, or 0 if it is not his any more.

if redis.call('GET', KEYS[1]) == ARGV[1] then
	return redis.call('DEL', KEYS[1])
end
return 0
