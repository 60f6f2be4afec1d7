-- Promises to accept no claim of a job with a smaller token, and stores a claim if one is given.
-- KEYS: meta, marks.
-- ARGV: tag, deadline in µs of the server's time, job, token, maximum number of fields, then the
-- claim or nothing. Of two claims with one token, the one with the greater number is kept.
-- Answers: 1, floor and the claim that was stored before; 4: other tag; 5: late; 13: superseded;
-- 14: too many jobs.
local function order(claim)
  local token, number = string.match(claim, '^(%d+) %d+ %d+ %d+ %d+ %d+ %d+ %d+ %d+ #(%d+) ')
  return tonumber(token or string.match(claim, '^%d+') or 0), tonumber(number or 0)
end
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local meta = redis.call('HMGET', KEYS[1], 'tag', 'floor')
local token = tonumber(ARGV[4])
if meta[1] ~= ARGV[1] then return {4, now, meta[1] or ''} end
if now > tonumber(ARGV[2]) then return {5, now} end
local promise, claim = 'promise:' .. ARGV[3], 'claim:' .. ARGV[3]
local kept = redis.call('HMGET', KEYS[2], promise, claim)
if tonumber(kept[1] or 0) > token then return {13, now} end
if not kept[1] and redis.call('HLEN', KEYS[2]) >= tonumber(ARGV[5]) then return {14, now} end
if ARGV[6] and kept[2] then
  local kept_token, kept_number = order(kept[2])
  local _, number = order(ARGV[6])
  if kept_token == token and kept_number > number then return {13, now} end
end
redis.call('HSET', KEYS[2], promise, ARGV[4])
if ARGV[6] then redis.call('HSET', KEYS[2], claim, ARGV[6]) end
return {1, now, tonumber(meta[2] or 0), kept[2]}
