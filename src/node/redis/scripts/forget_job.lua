-- Deletes a job: its promises and claims, under each of its names.
-- KEYS: meta, marks.
-- ARGV: tag, deadline in µs of the server's time, token of the job's lock, then the names, the
-- job's own first.
-- Answers: 1 and the number of deleted fields; 4: other tag; 5: late; 13: superseded.
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local tag = redis.call('HGET', KEYS[1], 'tag')
if tag ~= ARGV[1] then return {4, now, tag or ''} end
if now > tonumber(ARGV[2]) then return {5, now} end
local promised = redis.call('HGET', KEYS[2], 'promise:' .. ARGV[4])
if tonumber(promised or 0) > tonumber(ARGV[3]) then return {13, now} end
local fields = {}
for at = 4, #ARGV do
  fields[#fields + 1] = 'promise:' .. ARGV[at]
  fields[#fields + 1] = 'claim:' .. ARGV[at]
end
return {1, now, redis.call('HDEL', KEYS[2], unpack(fields))}
