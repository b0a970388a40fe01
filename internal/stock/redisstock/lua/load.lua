-- load: puts records into the keys of an epoch that is being built. A record of
-- the same order is replaced.
--
-- KEYS[1] meta          KEYS[2] buyers:<token>
-- ARGV[1] token
-- ARGV[2] the acts, as acts.lua has them; kinds are not looked at
-- ARGV[3…] the users of the acts, who may be none
--
-- Returns {'ok'}, or {'frozen'} if the lane is not frozen by the token.

local call, sub = redis.call, string.sub
local meta, buyers = KEYS[1], KEYS[2]

local m = call('HMGET', meta, 'frozen', 'seq')
if m[1] ~= ARGV[1] then return {'frozen'} end

local n, acts, none = #ARGV - 2, ARGV[2], string.rep('\0', 12)
local seen, now = n > 0 and call('HMGET', buyers, unpack(ARGV, 3)), {}

-- put returns a user's records with one more, or with one replaced.
local function put(records, record)
	for p = 1, #records, 25 do
		if sub(records, p, p + 11) == sub(record, 1, 12) then
			return sub(records, 1, p - 1) .. record .. sub(records, p + 25)
		end
	end
	return records .. record
end

-- cooled returns a user's records with the end of a cool-down, unless there is a
-- later one.
local function cooled(records, ends)
	for p = 1, #records, 25 do
		if sub(records, p, p + 11) == none and struct.unpack('>I6', records, p + 19) >= struct.unpack('>I6', ends) then
			return records
		end
	end
	return put(records, none .. string.rep('\0', 7) .. ends)
end

for i = 1, n do
	local at, user = 32 * (i - 1) + 1, ARGV[2 + i]
	local record, ends = sub(acts, at, at + 24), sub(acts, at + 26, at + 31)
	local mine = now[user] or seen[i] or ''
	if sub(record, 1, 12) ~= none then mine = put(mine, record) end
	if ends ~= '\0\0\0\0\0\0' then mine = cooled(mine, ends) end
	now[user] = mine
end

local set, s = {}, 0
for user, records in pairs(now) do
	set[s + 1], set[s + 2] = user, records
	s = s + 2
	if s == 1000 then
		call('HSET', buyers, unpack(set))
		set, s = {}, 0
	end
end
if s > 0 then call('HSET', buyers, unpack(set)) end
call('HINCRBY', meta, 'steps', 1)
call('HSET', meta, 'seq', string.format('%.0f', m[2] + 1))
return {'ok'}
