-- Deletes the keys from first to last where they are those of the nonce. Where somebody was refused
-- meanwhile, which a line feed at the value's end says, it is told on the name's channel, along with
-- how many listen there. A user without leave for channels releases all the same.
local function release_keys(first, last, nonce, now)
  local deleted, awaited = 0, 0
  for i = first, last do
    local value = redis.pcall('GET', KEYS[i])
    if type(value) == 'table' then return value end
    if value and string.sub(value, 1, 32) == nonce then
      redis.call('DEL', KEYS[i])
      deleted = deleted + 1
      local colon = string.byte(value, -1) == 10 and string.find(KEYS[i], ':lock:', 1, true)
      if colon then
        awaited = 1
        local channel = string.sub(KEYS[i], 1, colon) .. 'free:' .. string.sub(KEYS[i], colon + 6)
        local listening = redis.pcall('PUBSUB', 'NUMSUB', channel)
        redis.pcall('PUBLISH', channel, listening[2] or '')
      end
    end
  end
  return {9, now, deleted, awaited}
end
