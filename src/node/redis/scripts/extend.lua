-- KEYS: meta, then the lock keys. ARGV: tag, nonce, value, ttl in ms, deadline in µs of the
-- server's time for keys that have to be stored again, the strict clock guard (see acquire), layout.
-- A key that is ours is renewed by PEXPIRE or PEXPIREAT alone: a full server refuses SET, not these.
-- A node of our layout in probation keeps what it has for us, and says that it has no vote.
-- Answers: 8 extended, 10 stored again; 3 held; 4 other tag; 5 late; 11 clock off; 12 ttl above
-- max_ttl, which was lowered.
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local guard = ARGV[6]
local gone = {}
for i = 2, #KEYS do
  local value = redis.call('GET', KEYS[i])
  if not value then
    gone[#gone + 1] = KEYS[i]
  elseif string.sub(value, 1, 32) ~= ARGV[2] then
    return {3, now, 0, string.sub(value, 1, 1024), remaining(KEYS[i], guard, now)}
  end
end
local meta = redis.call('HMGET', KEYS[1], 'tag', 'max_ttl')
local tag, max_ttl = meta[1] or '', tonumber(meta[2] or 0)
local votes = tag == ARGV[1] and tag ~= ''
if not votes and string.sub(tag, 36, 51) ~= ARGV[7] then return {4, now, tag} end
if tonumber(ARGV[4]) > max_ttl then return votes and {12, now, max_ttl} or {4, now, tag} end
local ttl, px, expire = ARGV[4], 'PX', 'PEXPIRE'
if guard ~= '' then
  if clock_is_off(guard, now) then return {11, now} end
  ttl, px, expire = expiry(now, ttl), 'PXAT', 'PEXPIREAT'
end
if votes and #gone > 0 then
  if guard ~= '' and other_history(guard) then return {4, now, tag} end
  if now > tonumber(ARGV[5]) then return {5, now} end
  for _, key in ipairs(gone) do redis.call('SET', key, ARGV[3], px, ttl) end
end
for i = 2, #KEYS do redis.call(expire, KEYS[i], ttl) end
if not votes then return {4, now, tag} end
return {#gone > 0 and 10 or 8, now}
