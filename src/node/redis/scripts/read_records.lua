-- Reads records up to a total size.
-- KEYS: the records.
-- ARGV: maximum number of bytes.
-- Answers value (empty: none) and remaining TTL in ms (negative: none) of each, in the order of the
-- keys: at least the first one, and none beyond the maximum.
local answer, bytes = {}, 0
for _, key in ipairs(KEYS) do
  if bytes >= tonumber(ARGV[1]) then break end
  local value = redis.pcall('GET', key)
  if type(value) == 'table' then
    -- Another program wrote the key.
    if not string.find(value.err, 'WRONGTYPE', 1, true) then return value end
    value = false
  end
  answer[#answer + 1] = value
  answer[#answer + 1] = value and redis.call('PTTL', key) or 0
  bytes = bytes + (value and #value or 0)
end
return answer
