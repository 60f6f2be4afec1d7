-- Deletes the keys from first to last where they are those of the nonce. A line feed at the end of
-- the value marks a waiter: then publishes the number of listeners on the name's channel. Works
-- without permission for channels. Answers how many keys were there; where one had a waiter, a list:
-- 9, the time, and that number; or the error of a command.
local function release_keys(first, last, nonce, now)
  local deleted, awaited = 0, false
  for i = first, last do
    local value = redis.pcall('GET', KEYS[i])
    if type(value) == 'table' then return value end
    if value and string.sub(value, 1, 32) == nonce then
      redis.call('DEL', KEYS[i])
      deleted = deleted + 1
      local colon = string.byte(value, -1) == 10 and string.find(KEYS[i], ':lock:', 1, true)
      if colon then
        awaited = true
        local channel = string.sub(KEYS[i], 1, colon) .. 'free:' .. string.sub(KEYS[i], colon + 6)
        local listening = redis.pcall('PUBSUB', 'NUMSUB', channel)
        redis.pcall('PUBLISH', channel, listening[2] or '')
      end
    end
  end
  return awaited and {9, now, deleted} or deleted
end
