-- Leases a task that a single client runs on behalf of all: learning before an activation, copying
-- records.
-- KEYS: meta.
-- ARGV: the field that names the task, and its expected value; the field of the lease; the client's
-- number; the duration in µs, zero to release the lease; records and bytes copied so far.
-- Answers: {1}: the client has the lease; {0}: the task is over; {2, records, bytes}: another
-- client has the lease.
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local meta = redis.call('HMGET', KEYS[1], ARGV[1], ARGV[3])
if meta[1] ~= ARGV[2] then return {0} end
local client, ends, records, bytes = string.match(meta[2] or '', '^(%x+) (%d+) (%d+) (%d+)$')
-- No lease lasts longer (shared_task.rs). One that seems to last longer was written before the
-- server's clock was set back, and would keep the task from all clients until that time comes
-- again.
local LONGEST = 4000000
local left = tonumber(ends or 0) - now
if client and client ~= ARGV[4] and left > 0 and left <= LONGEST then
  return {2, tonumber(records), tonumber(bytes)}
end
-- A duration of zero ends the lease at once, so that the next client need not wait.
ends = string.format('%.0f', now + ARGV[5])
redis.call('HSET', KEYS[1], ARGV[3], ARGV[4] .. ' ' .. ends .. ' ' .. ARGV[6] .. ' ' .. ARGV[7])
return {1}
