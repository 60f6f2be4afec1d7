-- Renews a shared lease.
-- KEYS: meta, lock.
-- ARGV: tag, value, TTL in ms, deadline in µs of the server's time for a lease that has to be stored
-- again, layout.
-- Answers: those of extend.lua.
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local kind = redis.call('TYPE', KEYS[2]).ok
if kind == 'string' then
  return {3, now, 0, string.sub(redis.call('GET', KEYS[2]), 1, 1024), redis.call('PTTL', KEYS[2])}
end
-- A lease that has ended is removed: the mark of a request that waits may have kept the key. This write
-- comes first also because a full server refuses ZADD, unless the script has written before.
if kind == 'zset' then longest(KEYS[2], math.floor(now / 1000)) end
local kept = kind == 'zset' and redis.call('ZSCORE', KEYS[2], ARGV[2])
local meta = redis.call('HMGET', KEYS[1], 'tag', 'max_ttl')
local tag, max_ttl = meta[1] or '', tonumber(meta[2] or 0)
local votes = tag == ARGV[1] and tag ~= ''
if not votes and string.sub(tag, 36, 51) ~= ARGV[5] then return {4, now, tag} end
if tonumber(ARGV[3]) > max_ttl then return votes and {12, now, max_ttl} or {4, now, tag} end
if not kept then
  if not votes then return {4, now, tag} end
  if now > tonumber(ARGV[4]) then return {5, now} end
end
redis.call('ZADD', KEYS[2], math.floor(now / 1000) + tonumber(ARGV[3]), ARGV[2])
expire(KEYS[2])
if not votes then return {4, now, tag} end
return {kept and 8 or 10, now}
