-- Reads the holders of keys.
-- KEYS: lock keys. Answers, for each key: value (false: none), remaining time in ms (negative: no
-- TTL). The value of a key that is not a string is empty, as another program wrote it.
local found = {}
for i, key in ipairs(KEYS) do
  local value, left = redis.pcall('GET', key), 0
  if type(value) == 'table' then
    if string.sub(value.err, 1, 9) ~= 'WRONGTYPE' then return value end
    value = ''
  end
  if value then
    left = redis.call('PTTL', key)
    if #value > 1024 then value = string.sub(value, 1, 1024) end
  end
  found[2 * i - 1], found[2 * i] = value, left
end
return found
