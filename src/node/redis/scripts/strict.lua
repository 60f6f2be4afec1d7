-- The strict clock guard is given as one text: the first 16 digits of the replication id, and, in
-- µs and 16 digits each, the earliest and the latest time that the server's clock may show. Empty:
-- no strict guard. Under it a key lives for a backstop longer than its lease, so that a clock that
-- jumps forward does not delete it; a compared reading of the clock decides whether the lease has
-- ended. The clock may jump within a script, so no command reads it again.
local BACKSTOP = 86400000

local function clock_is_off(guard, now)
  return now < tonumber(string.sub(guard, 17, 32)) or now > tonumber(string.sub(guard, 33, 48))
end

local function other_history(guard)
  local info = redis.call('INFO', 'replication')
  local _, at = string.find(info, 'master_replid:', 1, true)
  return string.sub(info, at + 1, at + 16) ~= string.sub(guard, 1, 16)
end

-- When the key of a lease expires that lasts ttl ms from now on, in ms since the epoch.
local function expiry(now, ttl)
  return math.floor(now / 1000) + ttl + BACKSTOP
end

-- How long a lease still lasts in ms; negative where the key has no TTL.
local function remaining(key, guard, now)
  if guard == '' then return redis.call('PTTL', key) end
  local expires = redis.call('PEXPIRETIME', key)
  if expires < 0 then return expires end
  return math.max(expires - expiry(now, 0), 0)
end
