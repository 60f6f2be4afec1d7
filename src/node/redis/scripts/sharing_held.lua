-- Returns the answer for an exclusive request if shared leases have a key; otherwise nil, false, and
-- true: the key is free, and other requests that it refused may wait. A request that waits leaves a mark
-- for 2 s, so that no further lease joins, and each process that has one is asked for it on its channel:
-- each time, as an earlier message may be lost.
local function held_shared(key, fence, waits)
  local now = now_ms()
  local member, score = longest(key, now)
  if not member then
    redis.call('DEL', key)
    return nil, false, true
  end
  if waits == '+' then
    redis.pcall('ZADD', key, now + 2000, '\n')
    local colon = string.find(key, ':lock:', 1, true)
    for _, lease in ipairs(redis.call('ZRANGE', key, 0, -1)) do
      local owner = string.match(lease, '^%x+ %d+ %d+ (.*)$')
      if owner then
        local channel = string.sub(key, 1, colon) .. 'free:\r' .. owner
        redis.pcall('PUBLISH', channel, string.sub(key, colon + 6))
      end
    end
    expire(key)
  end
  return {3, fence, shared_value(key, member), score - now}
end
