-- Returns the claims of some jobs.
-- KEYS: meta, marks.
-- ARGV: tag, then the jobs' fields.
-- Answers: 1, floor and a list of claims (false for none); 4: other tag.
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local meta = redis.call('HMGET', KEYS[1], 'tag', 'floor')
if meta[1] ~= ARGV[1] then return {4, now, meta[1] or ''} end
return {1, now, tonumber(meta[2] or 0), redis.call('HMGET', KEYS[2], unpack(ARGV, 2))}
