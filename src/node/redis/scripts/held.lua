-- The answer where another lease has a key; otherwise nil, and whether it is the lease's own. `waits`:
-- '+' of one that will wait.
local function held(key, nonce, fence, waits)
  local value = redis.pcall('GET', key)
  if type(value) == 'table' then return value end
  if not value or string.sub(value, 1, 32) == nonce then return nil, value end
  local left = redis.call('PTTL', key)
  local owner, linger, mark = string.match(value, '^%x+ %d+ %d+ ([^%c]*)([\r\t]?)(\n?)$')
  if owner then
    -- A carriage return: the lease may linger, and its owner is asked for it on the owner's channel; a tab
    -- in its place: it was asked. A line feed marks a waiter for the release, see release.lua. A full
    -- server stores no marks. Works without permission for channels.
    local asked = linger
    if linger == '\r' then
      local colon = string.find(key, ':lock:', 1, true)
      local channel = string.sub(key, 1, colon) .. 'free:\r' .. owner
      local heard = redis.pcall('PUBLISH', channel, string.sub(key, colon + 6))
      if type(heard) == 'number' and heard > 0 then asked = '\t' end
    end
    local new = string.sub(value, 1, -1 - #linger - #mark) .. asked .. (waits == '+' and '\n' or mark)
    if new ~= value then
      redis.pcall('SET', key, new, 'KEEPTTL')
      value = new
    end
  end
  return {3, fence, string.sub(value, 1, 1024), left}
end
