-- take: sells one unit, if there is one and the buyer has none.
--
-- KEYS[1] stock, a number    KEYS[2] the buyers who have one, a set
-- ARGV[1] the buyer
--
-- Returns 1 if he has it now, 0 if none is left, -1 if he had one already.

if redis.call('SISMEMBER', KEYS[2], ARGV[1]) == 1 then
	return -1
end
if tonumber(redis.call('GET', KEYS[1])) <= 0 then
	return 0
end
redis.call('DECR', KEYS[1])
redis.call('SADD', KEYS[2], ARGV[1])
return 1
