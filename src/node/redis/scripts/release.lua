-- Releases the locks of a lease where they are its own. KEYS: the locks. ARGV: nonce. Answers how many
-- there were, or {9, number} where one had a waiter: a line feed at the end of the value is the mark of
-- one, and the number of listeners is published on the name's channel then. Works without permission for
-- channels.
local deleted, awaited = 0, false
for i, key in ipairs(KEYS) do
  local value = redis.pcall('GET', key)
  if type(value) == 'table' then return value end
  if value and string.sub(value, 1, 32) == ARGV[1] then
    redis.call('DEL', key)
    deleted = deleted + 1
    local colon = string.byte(value, -1) == 10 and string.find(key, ':lock:', 1, true)
    if colon then
      awaited = true
      local channel = string.sub(key, 1, colon) .. 'free:' .. string.sub(key, colon + 6)
      local listening = redis.pcall('PUBSUB', 'NUMSUB', channel)
      redis.pcall('PUBLISH', channel, listening[2] or '')
    end
  end
end
return awaited and {9, deleted} or deleted
