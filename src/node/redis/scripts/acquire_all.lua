-- The rest of acquire.lua: several names, or one that is not free.
local nonce, fence = string.sub(ARGV[1], 1, 32), 0
for i = 6, #ARGV do
  local stored = redis.call('ZSCORE', KEYS[1], ARGV[i])
  if not stored then return {4} end
  if tonumber(stored) > tonumber(fence) then fence = stored end
end
-- A call that arrives twice changes nothing, as its expiry may be earlier than the expiry of a
-- renewal.
local free, awaited = {}, {}
for i = 2, #KEYS do
  local other, own, waits = held(KEYS[i], nonce, fence, ARGV[5])
  if other then return other end
  if not own then free[#free + 1] = KEYS[i] end
  awaited[KEYS[i]] = waits and '\n' or ''
end
local failed
for _, key in ipairs(free) do
  local set = redis.pcall('SET', key, ARGV[1] .. awaited[key], 'PXAT', ARGV[2])
  if set.err then failed = failed or set end
end
if failed then return failed end
if tonumber(fence) >= tonumber(ARGV[3]) then return {2, fence} end
for i = 6, #ARGV do redis.call('ZADD', KEYS[1], ARGV[4], ARGV[i]) end
return 1
