-- The strict clock guard is given as one text: the first 16 digits of the replication id, and, in
-- µs and 16 digits each, the earliest and the latest time that the server's clock may show. Empty:
-- no strict guard.
-- Under it a key lives for a backstop longer than its lease, so that a clock that jumps forward
-- does not delete it; whether the lease is over is told by a clock that was compared first.
local BACKSTOP = 86400000

local function clock_is_off(guard, now)
  return now < tonumber(string.sub(guard, 17, 32)) or now > tonumber(string.sub(guard, 33, 48))
end

local function other_history(guard)
  local info = redis.call('INFO', 'replication')
  local _, at = string.find(info, 'master_replid:', 1, true)
  return string.sub(info, at + 1, at + 16) ~= string.sub(guard, 1, 16)
end

-- How long a lease still lasts in ms; negative where the key has no TTL.
local function remaining(key, guard)
  local left = redis.call('PTTL', key)
  if left < 0 or guard == '' then return left end
  return math.max(left - BACKSTOP, 0)
end
