-- Who takes over the records: one client at a time, the rest need not read them as well.
-- KEYS: meta. ARGV: what stands in `once`, which names the probation; the client's number; for how
-- long in µs, zero to give it back.
-- Answers 1; 0 where another does it, or there is nothing to do any more.
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local meta = redis.call('HMGET', KEYS[1], 'once', 'copier')
if meta[1] ~= ARGV[1] then return 0 end
local copier, ends = string.match(meta[2] or '', '^(%x+) (%d+)$')
-- A clock that was put back must not prolong it.
local left = tonumber(ends or 0) - now
if copier and copier ~= ARGV[2] and left > 0 and left <= 60000000 then return 0 end
if ARGV[3] == '0' then
  redis.call('HSET', KEYS[1], 'copier', '')
else
  redis.call('HSET', KEYS[1], 'copier', ARGV[2] .. ' ' .. string.format('%.0f', now + ARGV[3]))
end
return 1
