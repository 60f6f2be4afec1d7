-- KEYS: the lock keys. ARGV: nonce.
-- Answers: 9 and how many of the keys were ours.
local deleted = 0
for i = 1, #KEYS do
  local value = redis.call('GET', KEYS[i])
  if value and string.sub(value, 1, 32) == ARGV[1] then
    redis.call('DEL', KEYS[i])
    deleted = deleted + 1
  end
end
return {9, deleted}
