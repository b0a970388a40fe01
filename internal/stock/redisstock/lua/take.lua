-- take: decides up to 256 attempts, in order, in one atomic step.
--
-- Everything is read and checked, types too, before the first write. A refusal
-- writes nothing.
--
-- KEYS[1] meta          KEYS[2] tray          KEYS[3] buyers:<epoch>
-- ARGV[1] epoch         ARGV[2] terms         ARGV[3] seq that the caller has seen
-- ARGV[4] the caller's time by the ledger's clock, ms
-- ARGV[5] the most that this may be from the lane's, ms
-- ARGV[6] flags, one byte an attempt ('1': other terms), or '' where none has any
-- ARGV[7] the slips of the attempts in the tray's layout, joined: 12 bytes id,
--         1 item (255: none), 3 quantity (0: impossible), 16 MAC, 1 length, user
-- ARGV[8…] the users again, one each
--
-- Returns {state, seq, gen, version, now in ms of the ledger's clock, verdicts,
-- extras, left by item}; just {'cold'} for a lane that is not there. The state is
-- open, or why nothing was decided. Verdicts has one letter an attempt:
--   T taken  R replayed  M key mismatch  C closed  E ended  N not started
--   P paused  I no such item  Q quantity  O other terms  L limit  D cool-down
--   S sold out  F insufficient (fewer left)
-- Extras has 25 bytes for each R and M (the record) and 6 for each D (when the
-- cool-down ends), in the order of the attempts. Left is before max(0, …).

local call, byte, sub, format = redis.call, string.byte, string.sub, string.format
local meta, tray, buyers = KEYS[1], KEYS[2], KEYS[3]
local none = string.rep('\0', 12)
local many = 16 * 25 -- bytes of records from which on they are indexed

local kind = call('TYPE', tray).ok
local m = call('HMGET', meta, 'epoch', 'frozen', 'seq', 'terms', 'queued', 'cap', 'offset', 'state',
	'starts', 'ends', 'limit', 'version', 'gen', 'taken', 'items', 'l0')
if not m[1] or kind == 'none' then return {'cold'} end
if kind ~= 'stream' then return redis.error_reply('WRONGTYPE the tray is a ' .. kind) end

local t = call('TIME')
local now = t[1] * 1000 + (t[2] - t[2] % 1000) / 1000 - m[7]
local seq, queued, limit, items = tonumber(m[3]), tonumber(m[5]), tonumber(m[11]), tonumber(m[15])
local left = {tonumber(m[16])}
if items > 1 then
	local names = {}
	for i = 2, items do names[i - 1] = 'l' .. (i - 1) end
	local more = call('HMGET', meta, unpack(names))
	for i = 2, items do left[i] = tonumber(more[i - 1]) end
end

local function reply(state, verdicts, extras)
	return {state, seq, tonumber(m[13]), tonumber(m[12]), now, verdicts, extras, unpack(left)}
end

if m[2] then return reply('frozen', '', '') end
if m[1] ~= ARGV[1] then return reply('wrong_epoch', '', '') end
if seq < tonumber(ARGV[3]) then return reply('stale', '', '') end
if m[4] ~= ARGV[2] then return reply('wrong_terms', '', '') end
if queued >= tonumber(m[6]) then return reply('busy', '', '') end
if math.abs(now - ARGV[4]) > tonumber(ARGV[5]) then
	return redis.error_reply(format('CLOCK it is %.0f by the lane and %s by the caller', now, ARGV[4]))
end

-- What the sale itself refuses every fresh attempt with.
local shut
if m[8] ~= 'published' and m[8] ~= 'paused' then shut = 'C'
elseif now >= tonumber(m[10]) then shut = 'E'
elseif now < tonumber(m[9]) then shut = 'N'
elseif m[8] == 'paused' then shut = 'P' end

-- The records of a buyer who has many, by order: his batch would walk them once an
-- attempt, and everybody else would wait.
local function index(mine)
	local b = {at = {}, counted = 0, cool = 0}
	for p = 1, #mine, 25 do
		local id = sub(mine, p, p + 11)
		if id == none then
			b.cool = p + 19
		else
			local a1, a2, a3 = byte(mine, p + 16, p + 18)
			b.at[id] = b.at[id] or p
			b.counted = b.counted + a1 * 65536 + a2 * 256 + a3
		end
	end
	return b
end

local n = #ARGV - 7
if n == 0 then return reply('open', '', '') end
local flags, slips = ARGV[6], ARGV[7]
local seen = call('HMGET', buyers, unpack(ARGV, 8))
local stamp = struct.pack('>I6', now)

local out, extras, x = {}, {}, 0     -- the answer
local indexed = {}                   -- by user
local fresh, set, s = {}, {}, 0      -- buyers to write, each once: user to place in set
local runs, r, from = {}, 0, nil     -- slips to write, as stretches of ARGV[7]
local suffix = {}                    -- by quantity: what ends a new record
local units, sold, touched = 0, 0, {} -- to write into meta
local at = 1
for i = 1, n do
	local user = ARGV[7 + i]
	local item, q1, q2, q3 = byte(slips, at + 12, at + 15)
	local quantity = q1 * 65536 + q2 * 256 + q3
	local place = fresh[user]
	local mine = place and set[place] or seen[i]
	local counted, cool, book, verdict = 0, 0, nil, nil
	if mine then
		if #mine % 25 ~= 0 then return redis.error_reply('ERR the records of a buyer are malformed') end
		local id, hit = sub(slips, at, at + 11), nil
		if #mine > many then
			book = indexed[user] or index(mine)
			indexed[user] = book
			hit, counted, cool = book.at[id], book.counted, book.cool
		else
			for p = 1, #mine, 25 do
				local old = sub(mine, p, p + 11)
				if old == id then
					hit = p
					break
				elseif old == none then
					cool = p + 19
				else
					local a, b, c = byte(mine, p + 16, p + 18)
					counted = counted + a * 65536 + b * 256 + c
				end
			end
		end
		if hit then
			local it, a, b, c = byte(mine, hit + 12, hit + 15)
			local held = a * 65536 + b * 256 + c
			-- A tombstone does not know what the order once held.
			if it == item and quantity > 0 and (held == 0 or held == quantity) then verdict = 'R' else verdict = 'M' end
			x = x + 1
			extras[x] = sub(mine, hit, hit + 24)
		end
	end
	if not verdict then
		local have = left[item + 1]
		if shut then verdict = shut
		elseif not have then verdict = 'I'
		elseif quantity == 0 or quantity > limit then verdict = 'Q'
		elseif flags ~= '' and byte(flags, i) == 49 then verdict = 'O'
		elseif counted + quantity > limit then verdict = 'L'
		elseif cool > 0 and struct.unpack('>I6', mine, cool) > now then
			verdict = 'D'
			x = x + 1
			extras[x] = sub(mine, cool, cool + 5)
		elseif have <= 0 then verdict = 'S'
		elseif quantity > have then verdict = 'F'
		else
			verdict = 'T'
			local tail = suffix[quantity]
			if not tail then
				tail = sub(slips, at + 13, at + 15) .. stamp
				suffix[quantity] = tail
			end
			local record = sub(slips, at, at + 15) .. tail
			if book then
				book.at[sub(record, 1, 12)] = #mine + 1
				book.counted = book.counted + quantity
			end
			if mine then record = mine .. record end
			if not place then
				place, s = s + 2, s + 2
				fresh[user] = place
				set[place - 1] = user
			end
			set[place] = record
			left[item + 1] = have - quantity
			touched[item] = true
			units = units + quantity
			sold = sold + 1
			from = from or at
		end
	end
	if from and verdict ~= 'T' then
		r = r + 1
		runs[r] = sub(slips, from, at - 1)
		from = nil
	end
	out[i] = verdict
	at = at + 33 + #user
end

if sold > 0 then
	if sold == n then
		runs = slips
	else
		if from then runs[r + 1] = sub(slips, from) end
		runs = table.concat(runs)
	end
	seq = seq + 1
	call('XADD', tray, '*', 'v', '1', 'e', m[1], 't', m[4], 'a', ARGV[4], 'k', format('%.0f', now), 's', runs)
	call('HSET', buyers, unpack(set))
	local change, c = {'seq', format('%.0f', seq), 'queued', format('%.0f', queued + sold), 'taken', format('%.0f', m[14] + units)}, 6
	for item in pairs(touched) do
		change[c + 1] = 'l' .. item
		change[c + 2] = format('%.0f', left[item + 1])
		c = c + 2
	end
	call('HSET', meta, unpack(change))
end
return reply('open', table.concat(out), table.concat(extras))
