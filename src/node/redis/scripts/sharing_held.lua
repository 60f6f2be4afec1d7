-- Returns the answer for an exclusive request if shared leases have a key; otherwise nil, false, and
-- true: the key is free, and other requests that it refused may wait. A request that waits leaves its
-- mark for 2 s, and each process that has a lease is asked for it on its channel: each time, as an
-- earlier message may be lost.
local function held_shared(key, fence, mark)
  local now = now_ms()
  local member, score = longest(key, now)
  -- The marks of others stay until the key is this request's.
  if not member then return nil, false, true end
  -- A command that runs late leaves none: its request may have ended.
  if mark ~= '' and tonumber(ARGV[2]) > now then
    redis.pcall('ZADD', key, now + 2000 - 1e13, mark)
    tell_owners(key, '')
    expire(key)
  end
  return {3, fence, shared_value(key, member), score - now}
end
