-- offset: corrects the distance of the lane's clock from the ledger's.
--
-- KEYS[1] meta
-- ARGV[1] epoch         ARGV[2] offset, ms: the lane's clock less the ledger's
--
-- Returns {'ok'}, {'cold'}, {'frozen'} or {'epoch'}.

local m = redis.call('HMGET', KEYS[1], 'epoch', 'seq', 'frozen')
if not m[1] then return {'cold'} end
if m[3] then return {'frozen'} end
if m[1] ~= ARGV[1] then return {'epoch'} end
redis.call('HSET', KEYS[1], 'offset', ARGV[2], 'seq', string.format('%.0f', m[2] + 1))
return {'ok'}
