-- Sends the name to the owner of a lease that may linger, on the owner's channel. Returns whether
-- somebody listens there. Works without permission for channels.
local function ask(key, owner)
  local colon = string.find(key, ':lock:', 1, true)
  local channel = string.sub(key, 1, colon) .. 'free:\r' .. owner
  local heard = redis.pcall('PUBLISH', channel, string.sub(key, colon + 6))
  return type(heard) == 'number' and heard > 0
end

-- The answer if the key is another's. A deadline that begins with a + is of one that will wait.
local function other_holder(key, nonce, fence, now, deadline)
  local value = redis.pcall('GET', key)
  if type(value) == 'table' then return value end
  if value and string.sub(value, 1, 32) ~= nonce then
    local left = redis.call('PTTL', key)
    local owner, linger, mark = string.match(value, '^%x+ %d+ %d+ ([^%c]*)([\r\t]?)(\n?)$')
    if owner then
      -- A line feed marks the waiter for the release, see release_keys.lua. A tab in place of the
      -- carriage return: the owner was asked. A full server stores no marks.
      local marked = string.byte(deadline) == 43 and '\n' or mark
      local asked = linger == '\r' and ask(key, owner) and '\t' or linger
      local new = string.sub(value, 1, -1 - #linger - #mark) .. asked .. marked
      if new ~= value then
        redis.pcall('SET', key, new, 'KEEPTTL')
        value = new
      end
    end
    return {3, now, fence, string.sub(value, 1, 1024), left}
  end
end

return {
  release_keys = release_keys,
  other_holder = other_holder,
}
end
