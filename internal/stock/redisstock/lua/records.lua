-- records: what the lane has recorded of one user. Reads only.
--
-- KEYS[1] meta          KEYS[2] buyers:<epoch>
-- ARGV[1] the epoch of KEYS[2]                     ARGV[2] user
--
-- Returns {'cold'}, {'again'} if the lane is in another epoch, or
-- {open | frozen, the user's records ('' for none)}.

local m = redis.call('HMGET', KEYS[1], 'epoch', 'frozen')
if not m[1] then return {'cold'} end
if m[1] ~= ARGV[1] then return {'again'} end
return {m[2] and 'frozen' or 'open', redis.call('HGET', KEYS[2], ARGV[2]) or ''}
