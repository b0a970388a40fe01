-- freeze: stops the lane for one builder. A lane that is not there comes to be.
--
-- KEYS[1] meta          KEYS[2] tray
-- KEYS[3] buyers:<token> of the build that the caller saw unfinished, or any key
--         of the lane that is not there
-- ARGV[1] token         ARGV[2] the token that the caller saw freezing the lane, '' for none
--
-- Returns {'ok', then meta as it is, names and values}, {'frozen'} if a newer token
-- has the lane or has had it, or {'again'} if another one freezes it than was seen.

local call = redis.call
local meta, tray = KEYS[1], KEYS[2]

local kind = call('TYPE', tray).ok
if kind ~= 'none' and kind ~= 'stream' then return redis.error_reply('WRONGTYPE the tray is a ' .. kind) end
local m = call('HMGET', meta, 'epoch', 'frozen', 'seq')
if (m[2] or '') ~= ARGV[2] then return {'again'} end
local token = tonumber(ARGV[1])
if token <= tonumber(m[1] or 0) or token < tonumber(m[2] or 0) then return {'frozen'} end

if m[2] ~= ARGV[1] then
	local group = false
	if kind == 'stream' then
		for _, g in ipairs(call('XINFO', 'GROUPS', tray)) do group = group or g[2] == 'judge' end
	end
	if not group then call('XGROUP', 'CREATE', tray, 'judge', '0', 'MKSTREAM') end
	if not m[1] then
		call('HSET', meta, 'epoch', 0, 'state', 'closed', 'starts', 0, 'ends', 0, 'limit', 0, 'terms', 0,
			'version', 0, 'applied', 0, 'seq', 0, 'gen', 0, 'queued', 0, 'cap', 0, 'taken', 0, 'returned', 0,
			'offset', 0, 'items', 0)
	end
	if m[2] then call('UNLINK', KEYS[3]) end
	call('HDEL', meta, 'ready')
	call('HSET', meta, 'frozen', ARGV[1], 'steps', 0, 'seq', string.format('%.0f', (m[3] or 0) + 1))
end
local all = call('HGETALL', meta)
table.insert(all, 1, 'ok')
return all
