-- KEYS: meta, then the lock keys. ARGV: tag, nonce, value, ttl in ms, deadline in µs of the
-- server's time for keys that have to be stored again.
-- A key that is ours is renewed by PEXPIRE alone: a full server refuses SET, not PEXPIRE.
-- Answers: 8 extended; 3 held; 4 other tag; 5 late.
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local gone = {}
for i = 2, #KEYS do
  local value = redis.call('GET', KEYS[i])
  if not value then
    gone[#gone + 1] = KEYS[i]
  elseif string.sub(value, 1, 32) ~= ARGV[2] then
    return {3, now, 0, value, redis.call('PTTL', KEYS[i])}
  end
end
if #gone > 0 then
  local tag = redis.call('HGET', KEYS[1], 'tag') or ''
  if tag ~= ARGV[1] then return {4, now, tag} end
  if now > tonumber(ARGV[5]) then return {5, now} end
  for _, key in ipairs(gone) do redis.call('SET', key, ARGV[3], 'PX', ARGV[4]) end
end
for i = 2, #KEYS do redis.call('PEXPIRE', KEYS[i], ARGV[4]) end
return {8, now}
