-- Changes the membership that a node stores, if it is unchanged since the client read it
-- (record.rs).
-- KEYS: meta, the fences' key before, the fences' key after.
-- ARGV: number of compared fields; name and value of each ('' if missing); number of fields to set;
-- name and value of each; number of stripes that must exist (0: unchanged); minimum of all fences
-- (0: unchanged); then stripe and fence of each fence, which only grow.
-- Answers 1, or 0 if a value is different.
local at = 1
local function pairs_of()
  local first = at + 1
  at = first + 2 * ARGV[at]
  return first, at - 2
end

local first, last = pairs_of()
for i = first, last, 2 do
  if (redis.call('HGET', KEYS[1], ARGV[i]) or '') ~= ARGV[i + 1] then return 0 end
end
local function raise(stripe, fence)
  local stored = redis.call('ZSCORE', KEYS[3], stripe)
  if not stored or tonumber(fence) > tonumber(stored) then
    redis.call('ZADD', KEYS[3], fence, stripe)
  end
end

-- This write comes first, so that nothing is changed if it is denied. A node without fences has
-- none to move. Existing fences stay if they are greater.
if KEYS[2] ~= KEYS[3] and redis.call('TYPE', KEYS[2]).ok == 'zset' then
  local there = redis.call('ZRANGE', KEYS[3], 0, -1, 'WITHSCORES')
  redis.call('RENAME', KEYS[2], KEYS[3])
  for i = 1, #there, 2 do raise(there[i], there[i + 1]) end
end
first, last = pairs_of()
for i = first, last, 2 do redis.call('HSET', KEYS[1], ARGV[i], ARGV[i + 1]) end

-- All stripes must exist before the first vote.
for stripe = 0, ARGV[at] - 1 do raise(stripe, ARGV[at + 1]) end
for i = at + 2, #ARGV, 2 do raise(ARGV[i], ARGV[i + 1]) end
return 1
