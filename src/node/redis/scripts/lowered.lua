-- Clears what a lowered max_ttl was before: every lock with a longer TTL has expired.
-- KEYS: meta. ARGV: what lower.lua stored.
-- Answers: the longest TTL in ms that counts now. It is still above max_ttl where another client
-- lowers it as well.
if redis.call('HGET', KEYS[1], 'longer') == ARGV[1] then redis.call('HSET', KEYS[1], 'longer', '') end
local meta = redis.call('HMGET', KEYS[1], 'max_ttl', 'longer')
return math.max(tonumber(meta[1] or 0), longer_of(meta[2]))
