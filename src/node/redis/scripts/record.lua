-- Stores a record for the holder of a lock, unless there is a record of finished work.
-- KEYS: meta, lock key, record.
-- ARGV: tag, deadline in µs of the server's time, nonce, the record, its retention in ms.
-- Answers: 1, the record that is stored now and its remaining time in ms; 4: other tag; 5: late; 7:
-- the client does not hold the lock.
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local tag = redis.call('HGET', KEYS[1], 'tag')
if tag ~= ARGV[1] then return {4, now, tag or ''} end
if now > tonumber(ARGV[2]) then return {5, now} end
local value = redis.call('GET', KEYS[2])
if not value or string.sub(value, 1, 32) ~= ARGV[3] then return {7, now} end
local kept = redis.call('GET', KEYS[3])
if kept and string.sub(kept, 1, 1) == 'd' and string.sub(kept, 3, 34) ~= ARGV[3] then
  return {1, now, kept, redis.call('PTTL', KEYS[3])}
end
redis.call('SET', KEYS[3], ARGV[4], 'PX', ARGV[5])
return {1, now, ARGV[4], tonumber(ARGV[5])}
