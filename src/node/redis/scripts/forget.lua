-- Deletes a record if it has this nonce.
-- KEYS: record.
-- ARGV: nonce.
-- Answers: 1, and the number of deleted records.
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local kept = redis.call('GET', KEYS[1])
if not kept or string.sub(kept, 3, 34) ~= ARGV[1] then return {1, now, 0} end
return {1, now, redis.call('DEL', KEYS[1])}
