-- Returns the answer if another lease has a key; otherwise nil, and whether the key is the lease's
-- own. `mark`: empty unless the client will wait.
local function held(key, nonce, fence, mark)
  local value = redis.pcall('GET', key)
  if type(value) == 'table' then
    if redis.call('TYPE', key).ok ~= 'zset' then return value end
    return held_shared(key, fence, mark)
  end
  if not value or string.sub(value, 1, 32) == nonce then return nil, value end
  local left = redis.call('PTTL', key)
  local owner, linger, awaited = string.match(value, '^%x+ %d+ %d+ ([^%c]*)([\r\t]?)(\n?)$')
  if owner then
    -- After the owner comes a carriage return if the owner may keep the lease idle; the owner is
    -- then asked for it on its channel, and a tab replaces the carriage return. A line feed at the
    -- end marks a waiter, see release.lua. A full server stores neither. Works without permissions
    -- for channels.
    local asked = linger
    if linger == '\r' then
      local colon = string.find(key, ':lock:', 1, true)
      local channel = string.sub(key, 1, colon) .. 'free:\r' .. owner
      local heard = redis.pcall('PUBLISH', channel, string.sub(key, colon + 6))
      if type(heard) == 'number' and heard > 0 then asked = '\t' end
    end
    local new = string.sub(value, 1, -1 - #linger - #awaited) .. asked .. (mark == '' and awaited or '\n')
    if new ~= value then
      redis.pcall('SET', key, new, 'KEEPTTL')
      value = new
    end
  end
  return {3, fence, string.sub(value, 1, 1024), left}
end
