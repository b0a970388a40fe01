-- unfreeze: opens the lane under the token as its epoch.
--
-- KEYS[1] meta          KEYS[2] buyers:<token>        KEYS[3] buyers:<epoch before>
-- ARGV[1] token         ARGV[2] the epoch before, as the caller saw it
--
-- Returns {'ok'}, also where the lane is open under the token already; {'cold'} if
-- it is not there or nothing has been set; {'frozen'} if it is not frozen by the
-- token; {'again'} if it was in another epoch.

local call = redis.call
local meta = KEYS[1]

local m = call('HMGET', meta, 'epoch', 'frozen', 'ready', 'seq', 'gen')
if not m[1] then return {'cold'} end
if not m[2] and m[1] == ARGV[1] then return {'ok'} end
if m[2] ~= ARGV[1] then return {'frozen'} end
if not m[3] then return {'cold'} end
if m[1] ~= ARGV[2] then return {'again'} end

if KEYS[3] ~= KEYS[2] then call('UNLINK', KEYS[3]) end
call('HDEL', meta, 'frozen', 'ready', 'steps')
call('HSET', meta, 'epoch', ARGV[1], 'seq', string.format('%.0f', m[4] + 1), 'gen', string.format('%.0f', m[5] + 1))
return {'ok'}
