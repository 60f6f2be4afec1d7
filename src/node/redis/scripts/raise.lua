-- Raises the fences above a new token.
-- KEYS: fences, then the lock keys.
-- ARGV: nonce, value with the new token, token, end of its block, then the stripes.
-- Answers: 1: accepted, 2: fence ahead; 4: other view; 6: token too far ahead; 7: key gone.
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local token, fence = tonumber(ARGV[3]), 0
for i = 5, #ARGV do
  local stored = redis.call('ZSCORE', KEYS[1], ARGV[i])
  if not stored then return {4, now} end
  fence = math.max(fence, tonumber(stored))
end
if token > now + 60000000 then return {6, now} end
for i = 2, #KEYS do
  local value = redis.pcall('GET', KEYS[i])
  if type(value) ~= 'string' or string.sub(value, 1, 32) ~= ARGV[1] then return {7, now} end
end
if token <= fence then return {2, now, fence} end
for i = 2, #KEYS do
  -- Keeps the mark of a waiter: see release.lua.
  local mark = string.byte(redis.call('GET', KEYS[i]), -1) == 10 and '\n' or ''
  redis.call('SET', KEYS[i], ARGV[2] .. mark, 'KEEPTTL')
end
for i = 5, #ARGV do redis.call('ZADD', KEYS[1], ARGV[4], ARGV[i]) end
return {1, now, fence}
