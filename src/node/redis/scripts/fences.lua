-- Returns the fences under a key, and the tag of their node.
-- KEYS: the fences, meta.
-- Answers {stripe and fence of each, tag}. Form 2 kept the fences in a hash.
local kind, fences = redis.call('TYPE', KEYS[1]).ok, {}
if kind == 'hash' then fences = redis.call('HGETALL', KEYS[1]) end
if kind == 'zset' then fences = redis.call('ZRANGE', KEYS[1], 0, -1, 'WITHSCORES') end
return {fences, redis.call('HGET', KEYS[2], 'tag')}
