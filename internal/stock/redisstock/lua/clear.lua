-- clear: removes a frozen lane with an empty tray.
--
-- KEYS[1] meta          KEYS[2] tray
-- KEYS[3] buyers:<token>                      KEYS[4] buyers:<epoch>
-- ARGV[1] token         ARGV[2] the lane's epoch, as the caller saw it
--
-- Returns {'ok'}, also where nothing is there; {'frozen'} if the lane is not frozen
-- by the token; {'tray'} if slips wait; {'again'} if it is in another epoch.

local call = redis.call
local m = call('HMGET', KEYS[1], 'epoch', 'frozen')
if not m[1] then return {'ok'} end
if m[2] ~= ARGV[1] then return {'frozen'} end
if m[1] ~= ARGV[2] then return {'again'} end
if call('XLEN', KEYS[2]) > 0 then return {'tray'} end
call('UNLINK', unpack(KEYS))
return {'ok'}
