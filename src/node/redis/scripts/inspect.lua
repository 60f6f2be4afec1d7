-- Reads the holder of a key. KEYS: the lock key. ARGV: 'strict' under the strict clock guard, else
-- empty. Answers: value (or nothing), for how long still in ms (negative: no TTL).
local value = redis.call('GET', KEYS[1])
if not value then return {} end
local time = redis.call('TIME')
local left = remaining(KEYS[1], ARGV[1], time[1] * 1000000 + time[2])
-- Its lease is over; only the backstop keeps it.
if ARGV[1] ~= '' and left == 0 then return {} end
return {string.sub(value, 1, 1024), left}
