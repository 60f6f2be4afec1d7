-- One turn through the keys. ARGV: cursor, pattern, how many to look at.
-- Answers: the next cursor, then key, value and remaining TTL in ms (negative: none) of each record.
local page = redis.call('SCAN', ARGV[1], 'MATCH', ARGV[2], 'COUNT', ARGV[3])
local answer = {page[1]}
for _, key in ipairs(page[2]) do
  local value = redis.pcall('GET', key)
  if type(value) == 'string' then
    answer[#answer + 1] = key
    answer[#answer + 1] = value
    answer[#answer + 1] = redis.call('PTTL', key)
  end
end
return answer
