-- Raises the fence to the token of a shared lease.
-- KEYS: fences, lock.
-- ARGV: value, token, the stripe.
-- Answers: those of raise.lua. The token is accepted if the fence is not above it.
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local fence = redis.call('ZSCORE', KEYS[1], ARGV[3])
if not fence then return {4, now} end
local token = tonumber(ARGV[2])
fence = tonumber(fence)
if token > now + 60000000 then return {6, now} end
local kind = redis.call('TYPE', KEYS[2]).ok
local ends = kind == 'zset' and redis.call('ZSCORE', KEYS[2], ARGV[1])
if not ends or tonumber(ends) <= now / 1000 then return {7, now} end
if token < fence then return {2, now, fence} end
if token > fence then redis.call('ZADD', KEYS[1], ARGV[2], ARGV[3]) end
return {1, now, fence}
