-- Ends a shared lease, or all of a key. The last one leaves the marks of exclusive requests that wait, so
-- that one of them comes next.
-- KEYS: the lock.
-- ARGV: value; empty for all leases.
-- Answers: those of release.lua. A key that the lease had before it was shared is deleted as well.
local kind = redis.call('TYPE', KEYS[1]).ok
if kind == 'string' and ARGV[1] ~= '' then
  local own = redis.call('GET', KEYS[1])
  if string.sub(own, 1, 32) ~= string.sub(ARGV[1], 1, 32) then return 0 end
  redis.call('DEL', KEYS[1])
  if string.byte(own, -1) ~= 10 then return 1 end
  publish_free(KEYS[1])
  return {9, 1}
end
if kind ~= 'zset' then return 0 end
if ARGV[1] == '' then
  if not longest(KEYS[1], now_ms()) then return 0 end
  redis.call('ZREMRANGEBYSCORE', KEYS[1], 0, '+inf')
-- The release of a refused attempt wakes nobody.
elseif redis.call('ZREM', KEYS[1], ARGV[1]) == 0 then return 0 end
local member = longest(KEYS[1], now_ms())
expire(KEYS[1])
if not marked(KEYS[1]) then return 1 end
if not member then publish_free(KEYS[1]) end
return {9, 1}
