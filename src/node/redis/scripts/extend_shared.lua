-- Renews a shared lease. An exclusive lease with the same nonce becomes this shared one; requests that it
-- refused are woken, as shared ones may join.
-- KEYS: meta, lock.
-- ARGV: tag, value, TTL in ms, deadline in µs of the server's time for a lease that has to be stored
-- again, layout.
-- Answers: those of extend.lua; 8 and 10 with 1 after the time if an exclusive request waits, else 0.
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local kind = redis.call('TYPE', KEYS[2]).ok
local own
if kind == 'string' then
  own = redis.call('GET', KEYS[2])
  if string.sub(own, 1, 32) ~= string.sub(ARGV[2], 1, 32) then
    return {3, now, 0, string.sub(own, 1, 1024), redis.call('PTTL', KEYS[2])}
  end
end
-- A lease that has ended is removed: the mark of a request that waits may have kept the key. This write
-- comes first also because a full server refuses ZADD, unless the script has written before.
if kind == 'zset' then longest(KEYS[2], math.floor(now / 1000)) end
local kept = own or kind == 'zset' and redis.call('ZSCORE', KEYS[2], ARGV[2])
local meta = redis.call('HMGET', KEYS[1], 'tag', 'max_ttl')
local tag, max_ttl = meta[1] or '', tonumber(meta[2] or 0)
local votes = tag == ARGV[1] and tag ~= ''
if not votes and string.sub(tag, 36, 51) ~= ARGV[5] then return {4, now, tag} end
if tonumber(ARGV[3]) > max_ttl then return votes and {12, now, max_ttl} or {4, now, tag} end
if not kept then
  if not votes then return {4, now, tag} end
  if now > tonumber(ARGV[4]) then return {5, now} end
end
local ends = math.floor(now / 1000) + tonumber(ARGV[3])
if own then
  -- The holder counts on its key, so it stays if the other form is denied.
  local left = math.max(redis.call('PTTL', KEYS[2]), 1)
  redis.call('DEL', KEYS[2])
  local done = redis.pcall('ZADD', KEYS[2], ends, ARGV[2])
  if type(done) ~= 'table' then done = redis.pcall('PEXPIREAT', KEYS[2], ends) end
  if type(done) == 'table' then
    redis.call('SET', KEYS[2], own, 'PX', left)
    return done
  end
  if string.byte(own, -1) == 10 then publish_free(KEYS[2]) end
else
  redis.call('ZADD', KEYS[2], ends, ARGV[2])
  expire(KEYS[2])
end
if not votes then return {4, now, tag} end
return {kept and 8 or 10, now, marked(KEYS[2]) and 1 or 0}
