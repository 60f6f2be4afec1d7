-- Keeps a record for the holder of a lock, unless there is one of work that is done.
-- KEYS: meta, lock key, record. ARGV: tag, deadline in µs of the server's time, strict clock guard,
-- nonce, the record, how long it is kept in ms.
-- Answers: 1, what is kept now, and for how long still in ms; 4 other tag; 5 late; 7 the lock is not
-- the holder's; 11 clock off.
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local tag, guard = redis.call('HGET', KEYS[1], 'tag'), ARGV[3]
if tag ~= ARGV[1] or (guard ~= '' and other_history(guard)) then return {4, now, tag or ''} end
if guard ~= '' and clock_is_off(guard, now) then return {11, now} end
if now > tonumber(ARGV[2]) then return {5, now} end
local value = redis.call('GET', KEYS[2])
if not value or string.sub(value, 1, 32) ~= ARGV[4] then return {7, now} end
if guard ~= '' and remaining(KEYS[2], guard, now) == 0 then return {7, now} end
local kept = redis.call('GET', KEYS[3])
if kept and string.sub(kept, 1, 1) == 'd' and string.sub(kept, 3, 34) ~= ARGV[4] then
  return {1, now, kept, redis.call('PTTL', KEYS[3])}
end
redis.call('SET', KEYS[3], ARGV[5], 'PX', ARGV[6])
return {1, now, ARGV[5], tonumber(ARGV[6])}
