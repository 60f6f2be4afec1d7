-- KEYS: meta, then the lock keys. ARGV: tag, nonce, value, ttl in ms, deadline in µs of the
-- server's time, token (0: no fencing), end of its block, then the stripe fields.
-- Answers: 1 granted and accepted, 2 granted; 3 held; 4 other tag; 5 late; 6 token too far ahead.
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local meta = redis.call('HMGET', KEYS[1], 'tag', 'floor', unpack(ARGV, 8))
if (meta[1] or '') ~= ARGV[1] then return {4, now, meta[1] or ''} end
if now > tonumber(ARGV[5]) then return {5, now} end
local token = tonumber(ARGV[6])
if token > now + 60000000 then return {6, now} end
local fence = tonumber(meta[2] or 0)
for i = 3, #meta do
  local stored = tonumber(meta[i] or 0)
  if stored > fence then fence = stored end
end
local function held(key, value)
  return {3, now, fence, value, redis.call('PTTL', key)}
end
if #KEYS == 2 then
  if not redis.call('SET', KEYS[2], ARGV[3], 'NX', 'PX', ARGV[4]) then
    local value = redis.call('GET', KEYS[2])
    if string.sub(value, 1, 32) ~= ARGV[2] then return held(KEYS[2], value) end
  end
else
  for i = 2, #KEYS do
    local value = redis.call('GET', KEYS[i])
    if value and string.sub(value, 1, 32) ~= ARGV[2] then return held(KEYS[i], value) end
  end
  for i = 2, #KEYS do redis.call('SET', KEYS[i], ARGV[3], 'PX', ARGV[4]) end
end
if token <= fence then return {2, now, fence} end
for i = 8, #ARGV do redis.call('HSET', KEYS[1], ARGV[i], ARGV[7]) end
return {1, now, fence}
