-- Returns the state of the work of records.
-- KEYS: the records.
-- Answers the first letter of each: 'd': done, 'u': begun; empty if there is no record; '?' for a
-- key that another program wrote.
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
