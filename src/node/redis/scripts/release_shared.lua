-- Ends a shared lease, or all of a key. The last one leaves the mark of exclusive requests that wait, so
-- that one of them comes next.
-- KEYS: the lock.
-- ARGV: value; empty for all leases.
-- Answers: those of release.lua.
if redis.call('TYPE', KEYS[1]).ok ~= 'zset' then return 0 end
if ARGV[1] == '' then
  if not longest(KEYS[1], now_ms()) then return 0 end
  local mark = redis.call('ZSCORE', KEYS[1], '\n')
  redis.call('DEL', KEYS[1])
  if mark then redis.call('ZADD', KEYS[1], mark, '\n') end
-- The release of a refused attempt wakes nobody.
elseif redis.call('ZREM', KEYS[1], ARGV[1]) == 0 then return 0 end
local member = longest(KEYS[1], now_ms())
local marked = redis.call('ZSCORE', KEYS[1], '\n')
expire(KEYS[1])
if not marked then return 1 end
if not member then publish_free(KEYS[1]) end
return {9, 1}
