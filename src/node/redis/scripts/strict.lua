-- The strict clock guard is given as 'within wall replication-id': by how much, in µs, the
-- server's clock may differ from the client's, which showed wall. Empty: no strict guard.
-- Under it a key lives for a backstop longer than its lease, so that a clock that jumps forward
-- does not delete it; whether the lease is over is told by a clock that was compared first.
local BACKSTOP = 86400000

local function strict_guard(text)
  if text == '' then return nil end
  local within, wall, history = string.match(text, '^(%d+) (%d+) (%x+)$')
  return {within = tonumber(within), wall = tonumber(wall), history = history}
end

local function backstop(guard)
  return guard and BACKSTOP or 0
end

local function clock_is_off(guard, now)
  return math.abs(now - guard.wall) > guard.within
end

local function other_history(guard)
  local current = string.match(redis.call('INFO', 'replication'), 'master_replid:(%x+)')
  return string.sub(current, 1, 16) ~= guard.history
end

-- How long a lease still lasts in ms; negative where the key has no TTL.
local function remaining(key, guard)
  local left = redis.call('PTTL', key)
  if left < 0 or not guard then return left end
  return math.max(left - BACKSTOP, 0)
end
