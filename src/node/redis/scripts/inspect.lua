-- Reads the holders of keys.
-- KEYS: lock keys. Answers, for each key: value (false: none), remaining time in ms (negative: no
-- TTL). The value of a key that is not a string is empty, as another program wrote it.
local found = {}
for i, key in ipairs(KEYS) do
  local value, left = redis.pcall('GET', key), 0
  if type(value) == 'table' then
    if string.sub(value.err, 1, 9) ~= 'WRONGTYPE' then return value end
    value = ''
    if redis.call('TYPE', key).ok == 'zset' then
      local now = now_ms()
      local member, score = longest(key, now)
      value = member and shared_value(key, member) or false
      left = member and score - now or -2
    end
  end
  if value and left == 0 then
    left = redis.call('PTTL', key)
    if #value > 1024 then value = string.sub(value, 1, 1024) end
  end
  found[2 * i - 1], found[2 * i] = value, left
end
return found
