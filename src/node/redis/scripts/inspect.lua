-- Reads the holders of keys.
-- KEYS: lock keys. Answers, for each key: value (false: none), remaining time in ms (negative: no
-- TTL). The value of a key that is not a string is empty, as another program wrote it. Instead of a value,
-- a shared key has a list: the value that stands for all its leases, and those of the leases after
-- the one that lasts longest, 16 in all.
local found = {}
for i, key in ipairs(KEYS) do
  local value, left = redis.pcall('GET', key), 0
  if type(value) == 'table' then
    if string.sub(value.err, 1, 9) ~= 'WRONGTYPE' then return value end
    value = ''
    if redis.call('TYPE', key).ok == 'zset' then
      local now = now_ms()
      local member, score = longest(key, now)
      value, left = false, -2
      if member then
        value, left = {shared_value(key, member)}, score - now
        for _, other in ipairs(redis.call('ZRANGE', key, '+inf', 0, 'BYSCORE', 'REV', 'LIMIT', 0, 17)) do
          if other ~= member and other ~= '\n' and #value < 16 then
            value[#value + 1] = string.sub(other, 1, 1024)
          end
        end
      end
    end
  end
  if value and left == 0 then
    left = redis.call('PTTL', key)
    if #value > 1024 then value = string.sub(value, 1, 1024) end
  end
  found[2 * i - 1], found[2 * i] = value, left
end
return found
