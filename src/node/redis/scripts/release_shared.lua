-- Ends a shared lease. The last one leaves the mark of exclusive requests that wait, so that one of
-- them comes next.
-- KEYS: the lock.
-- ARGV: value.
-- Answers: those of release.lua.
if redis.call('TYPE', KEYS[1]).ok ~= 'zset' then return 0 end
-- The release of a refused attempt wakes nobody.
if redis.call('ZREM', KEYS[1], ARGV[1]) == 0 then return 0 end
local member = longest(KEYS[1], now_ms())
local marked = redis.call('ZSCORE', KEYS[1], '\n')
expire(KEYS[1])
if not marked then return 1 end
if not member then publish_free(KEYS[1]) end
return {9, 1}
