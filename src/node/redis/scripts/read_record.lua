-- Reads the record of a name.
-- KEYS: meta, record.
-- ARGV: tag.
-- Answers: 1, the record and its remaining time in ms, or 1 alone; 4: other tag; 15: no record, and
-- records are still being copied to the node.
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local meta = redis.call('HMGET', KEYS[1], 'tag', 'once')
if meta[1] ~= ARGV[1] then return {4, now, meta[1] or ''} end
local record = redis.call('GET', KEYS[2])
if record then return {1, now, record, redis.call('PTTL', KEYS[2])} end
if meta[2] and meta[2] ~= '' then return {15, now} end
return {1, now}
