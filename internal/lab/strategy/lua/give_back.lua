-- give_back: puts a buyer's unit back, once.
--
-- KEYS[1] stock, a number    KEYS[2] the buyers who have one, a set
-- ARGV[1] the buyer
--
-- Returns 1, or 0 if he has none.

if redis.call('SREM', KEYS[2], ARGV[1]) == 0 then
	return 0
end
redis.call('INCR', KEYS[1])
return 1
