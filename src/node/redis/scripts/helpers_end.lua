-- The answer if the key is another's. A lease that is over may be taken over. A deadline that begins
-- with a + is of one that will wait.
local function other_holder(key, nonce, fence, now, guard, deadline)
  local value = redis.pcall('GET', key)
  if type(value) == 'table' then return value end
  if value and string.sub(value, 1, 32) ~= nonce then
    local left = remaining(key, guard, now)
    if guard ~= '' and left == 0 and string.find(value, '^%x+ %d+ %d+ ') then return nil end
    -- Marks the waiter for the release, see release_keys.lua. A full server stores no mark.
    local waits = string.byte(deadline) == 43
    if waits and string.byte(value, -1) ~= 10 and string.find(value, '^%x+ %d+ %d+ ') then
      redis.pcall('SET', key, value .. '\n', 'KEEPTTL')
    end
    return {3, now, fence, string.sub(value, 1, 1024), left}
  end
end

return {
  release_keys = release_keys,
  other_history = other_history,
  clock_is_off = clock_is_off,
  other_holder = other_holder,
  expiry = expiry,
}
end
