-- How far the work of records has come. KEYS: the records.
-- Answers the first letter of each: 'd' done, 'u' begun; nothing where there is no record, '?' for
-- somebody else's key.
local answer = {}
for i, key in ipairs(KEYS) do
  local value = redis.pcall('GET', key)
  if type(value) == 'table' then
    if not string.find(value.err, 'WRONGTYPE', 1, true) then return value end
    value = '?'
  end
  answer[i] = string.sub(value or '', 1, 1)
end
return answer
