-- Reads the holders of keys. KEYS: lock keys. ARGV: 'strict' under the strict clock guard, else
-- empty. Answers, for each key: value (or nothing), for how long still in ms (negative: no TTL).
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local found = {}
for i, key in ipairs(KEYS) do
  local value = redis.call('GET', key)
  local left = value and remaining(key, ARGV[1], now)
  -- Its lease is over; only the backstop keeps it.
  if not value or (ARGV[1] ~= '' and left == 0) then
    found[i] = {}
  else
    found[i] = {string.sub(value, 1, 1024), left}
  end
end
return found
