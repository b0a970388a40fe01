-- clock: the time of the server that has the lane. Reads only.
--
-- KEYS[1] meta, which names the server
--
-- Returns {'ok', seconds, microseconds}.

local t = redis.call('TIME')
return {'ok', tonumber(t[1]), tonumber(t[2])}
