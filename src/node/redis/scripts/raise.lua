-- KEYS: meta, then the lock keys. ARGV: tag, nonce, value with the new token, token, end of its
-- block, then the stripe fields.
-- Answers: 1 accepted, 2 fence ahead; 4 other tag; 6 token too far ahead; 7 key gone.
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local meta = redis.call('HMGET', KEYS[1], 'tag', 'floor', unpack(ARGV, 6))
if meta[1] ~= ARGV[1] then return {4, now, meta[1] or ''} end
local token = tonumber(ARGV[4])
if token > now + 60000000 then return {6, now} end
for i = 2, #KEYS do
  local value = redis.call('GET', KEYS[i])
  if not value or string.sub(value, 1, 32) ~= ARGV[2] then return {7, now} end
end
local fence = tonumber(meta[2] or 0)
for i = 3, #meta do
  local stored = tonumber(meta[i] or 0)
  if stored > fence then fence = stored end
end
if token <= fence then return {2, now, fence} end
for i = 2, #KEYS do
  -- Keeps the mark of a waiter: see release_keys.lua.
  local mark = string.byte(redis.call('GET', KEYS[i]), -1) == 10 and '\n' or ''
  redis.call('SET', KEYS[i], ARGV[3] .. mark, 'KEEPTTL')
end
for i = 6, #ARGV do redis.call('HSET', KEYS[1], ARGV[i], ARGV[5]) end
return {1, now, fence}
