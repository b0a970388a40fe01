-- acts: carries out what the ledger did to orders, rows of its journal exactly
-- once, or returns ahead of the journal.
--
-- KEYS[1] meta          KEYS[2] buyers:<epoch>
-- ARGV[1] epoch
-- ARGV[2] the journal number that the lane must have, '' ahead of the journal
-- ARGV[3] the journal number that the lane has afterwards
-- ARGV[4] the acts, 32 bytes each, joined: a record of 25 bytes (12 bytes id,
--         zeros for none, 1 item, 3 quantity, 3 counted, 6 taken at), 1 kind ('r'
--         return, 'a' adopt), 6 end of a cool-down (0: none)
-- ARGV[5…] the users of the acts
--
-- Returns {'ok', the lane's journal number}, {'cold'}, {'frozen'}, {'epoch'}, or
-- {'item'} if an adopted order is of an item that the lane lacks.

local call, byte, sub, format = redis.call, string.byte, string.sub, string.format
local meta, buyers = KEYS[1], KEYS[2]

local m = call('HMGET', meta, 'epoch', 'frozen', 'applied', 'seq', 'gen', 'taken', 'returned', 'items')
if not m[1] then return {'cold'} end
if m[2] then return {'frozen'} end
if m[1] ~= ARGV[1] then return {'epoch'} end
local journal = ARGV[2] ~= ''
if journal and (m[3] ~= ARGV[2] or ARGV[2] == ARGV[3]) then return {'ok', m[3]} end

local n, items = #ARGV - 4, tonumber(m[8])
local acts, none = ARGV[4], string.rep('\0', 12)
local now = {} -- by user: records as they become
if n > 0 then
	local seen = call('HMGET', buyers, unpack(ARGV, 5))
	for i = 1, n do now[ARGV[4 + i]] = seen[i] or '' end
end

-- place returns where the order's record begins in a user's, and where the mark
-- of a cool-down does.
local function place(records, id)
	local found, cool
	for p = 1, #records, 25 do
		local old = sub(records, p, p + 11)
		if old == id then found = p elseif old == none then cool = p end
	end
	return found, cool
end

local change, changed = {}, false -- by item: what left gains
local taken, returned, moved = 0, 0, false
for i = 1, n do
	local at, user = 32 * (i - 1) + 1, ARGV[4 + i]
	local record, kind = sub(acts, at, at + 24), sub(acts, at + 25, at + 25)
	local id, mine = sub(record, 1, 12), now[user]
	local found, cool = place(mine, id)
	local held, of = 0, 0
	if found and id ~= none then
		local a, b, c
		of, a, b, c = byte(mine, found + 12, found + 15)
		held = a * 65536 + b * 256 + c
	end
	if id == none then
		cool = found or cool
	elseif kind == 'r' and held > 0 then
		change[of] = (change[of] or 0) + held
		returned = returned + held
		mine = sub(mine, 1, found + 12) .. '\0\0\0' .. sub(record, 17, 19) .. sub(mine, found + 19)
		moved = true
	elseif kind == 'a' then
		local item, a, b, c = byte(record, 13, 16)
		if item >= items then return {'item'} end
		local quantity = a * 65536 + b * 256 + c
		if held == 0 and quantity > 0 then
			change[item] = (change[item] or 0) - quantity
			taken = taken + quantity
			if found then
				mine = sub(mine, 1, found - 1) .. record .. sub(mine, found + 25)
			else
				mine = mine .. record
			end
			moved = true
		end
	end
	local ends = sub(acts, at + 26, at + 31)
	local untilMs = struct.unpack('>I6', ends)
	if untilMs > 0 then
		local mark = none .. string.rep('\0', 7) .. ends
		if not cool then
			mine = mine .. mark
			changed = true
		elseif struct.unpack('>I6', mine, cool + 19) < untilMs then
			mine = sub(mine, 1, cool - 1) .. mark .. sub(mine, cool + 25)
			changed = true
		end
	end
	now[user] = mine
end

if not journal and not moved and not changed then return {'ok', m[3]} end

local fields = {'seq', format('%.0f', m[4] + 1)}
local function put(name, value)
	fields[#fields + 1] = name
	fields[#fields + 1] = format('%.0f', value)
end
if moved then
	put('gen', m[5] + 1)
	put('taken', m[6] + taken)
	put('returned', m[7] + returned)
	for item, gain in pairs(change) do
		put('l' .. item, call('HGET', meta, 'l' .. item) + gain)
	end
end
if moved or changed then
	local set, s = {}, 0
	for user, records in pairs(now) do
		if records ~= '' then
			set[s + 1] = user
			set[s + 2] = records
			s = s + 2
			if s == 1000 then
				call('HSET', buyers, unpack(set))
				set, s = {}, 0
			end
		end
	end
	if s > 0 then call('HSET', buyers, unpack(set)) end
end
if journal then
	fields[#fields + 1] = 'applied'
	fields[#fields + 1] = ARGV[3]
end
call('HSET', meta, unpack(fields))
return {'ok', journal and ARGV[3] or m[3]}
