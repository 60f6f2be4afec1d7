-- Records, until they have so many bytes. KEYS: the records. ARGV: how many bytes.
-- Answers value (nothing: none) and remaining TTL in ms (negative: none) of each, in the order of the
-- keys; of the first one at least, and nothing of those that were too many.
local answer, bytes = {}, 0
for _, key in ipairs(KEYS) do
  if bytes >= tonumber(ARGV[1]) then break end
  local value = redis.pcall('GET', key)
  if type(value) == 'table' then
    -- Somebody else's key.
    if not string.find(value.err, 'WRONGTYPE', 1, true) then return value end
    value = false
  end
  answer[#answer + 1] = value
  answer[#answer + 1] = value and redis.call('PTTL', key) or 0
  bytes = bytes + (value and #value or 0)
end
return answer
