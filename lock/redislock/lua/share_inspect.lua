-- share_inspect: looks at a read-write lock or semaphore.
--
-- KEYS and ARGV[1…6] as in share; ARGV[1] is ''
--
-- Returns {waiters, last fence, {owner, fence, count, ms left, metadata}, …}.

local out = {call('LLEN', KEYS[3]), call('HGET', KEYS[1], 'f') or '0'}
local list = call('ZRANGEBYSCORE', KEYS[2], '(' .. number(ms), '+inf', 'WITHSCORES')
for i = 1, #list, 2 do
	local count, f, metadata = match(call('HGET', KEYS[1], list[i]), '^(%d+):(%d+):(.*)$')
	out[#out + 1] = {list[i], f, count + 0, list[i + 1] - ms, metadata}
end
return out
