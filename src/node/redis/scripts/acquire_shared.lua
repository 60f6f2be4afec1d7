-- Acquires a lock for a shared lease.
-- KEYS: fences, lock.
-- ARGV: value, expiry (ms of the server's clock), token (0: none), '+' if the client will wait when it
-- is refused, the stripe.
--
-- As in acquire.lua, nothing is stored with an expiry in the past. The token is accepted if the fence
-- is not above it, and becomes the fence.
--
-- Answers: those of acquire.lua.
local fence = redis.call('ZSCORE', KEYS[1], ARGV[5])
if not fence then return {4} end
local kind = redis.call('TYPE', KEYS[2]).ok
if kind == 'zset' then
  local now = now_ms()
  local member, score = longest(KEYS[2], now)
  local mark, ends = marked(KEYS[2])
  if mark and not redis.call('ZSCORE', KEYS[2], ARGV[1]) then
    -- Where no lease is left, the exclusive request that waits comes next.
    return {3, fence, shared_value(KEYS[2], member or ''), (score or ends) - now}
  end
elseif kind ~= 'none' then
  -- No exclusive lease has this nonce.
  return (held(KEYS[2], '', fence, ARGV[4]))
end
if tonumber(ARGV[2]) > now_ms() then
  -- A call that arrives after a renewal must not shorten the lease.
  local stored = kind == 'zset' and redis.call('ZSCORE', KEYS[2], ARGV[1])
  if not stored or tonumber(stored) < tonumber(ARGV[2]) then
    local added = redis.pcall('ZADD', KEYS[2], ARGV[2], ARGV[1])
    if type(added) == 'table' then return added end
  end
  expire(KEYS[2])
end
if tonumber(ARGV[3]) > 0 then
  if tonumber(fence) > tonumber(ARGV[3]) then return {2, fence} end
  if tonumber(fence) < tonumber(ARGV[3]) then redis.call('ZADD', KEYS[1], ARGV[3], ARGV[5]) end
  return 1
end
return {2, fence}
