-- Reads the holders of keys. KEYS: lock keys. ARGV: 'strict' under the strict clock guard, else
-- empty. Answers, for each key: value (false: none), for how long still in ms (negative: no TTL). A
-- key that is no string is somebody else's: its value is empty.
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local found = {}
for i, key in ipairs(KEYS) do
  local value, left = redis.pcall('GET', key), 0
  if type(value) == 'table' then
    if string.sub(value.err, 1, 9) ~= 'WRONGTYPE' then return value end
    value = ''
  end
  if value then
    left = remaining(key, ARGV[1], now)
    if #value > 1024 then value = string.sub(value, 1, 1024) end
    -- Its lease is over; only the backstop keeps it.
    if left == 0 and ARGV[1] ~= '' then value = false end
  end
  found[2 * i - 1], found[2 * i] = value, left
end
return found
