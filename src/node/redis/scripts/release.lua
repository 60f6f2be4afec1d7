-- Deletes the keys of one or many leases where they are the lease's own.
-- KEYS: the lock keys of all leases. ARGV: for each lease: nonce, and how many keys, negative.
-- Answers for each lease: 9 and how many of its keys were there; or the error that a command met.
local function release(first, last, nonce)
  local deleted = 0
  for i = first, last do
    local value = redis.pcall('GET', KEYS[i])
    if type(value) == 'table' then return value end
    if value and string.sub(value, 1, 32) == nonce then
      redis.call('DEL', KEYS[i])
      deleted = deleted + 1
    end
  end
  return {9, deleted}
end

local answers, first = {}, 1
for at = 1, #ARGV, 2 do
  local keys = -ARGV[at + 1]
  answers[#answers + 1] = release(first, first + keys - 1, ARGV[at])
  first = first + keys
end
return answers
