-- Changes what a node stores of its membership, if that is still what the client read (record.rs).
-- KEYS: meta, its fences before, its fences after. ARGV: how many fields are compared; each of these with
-- its value, '' where there is none; how many fields are set; each of these with its value; how many
-- stripes there have to be (0: as they are); the least fence of all (0: as they are); then stripe and
-- fence, which only grow.
-- Answers 1; 0 where something is different.
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
  local stored = redis.call('HGET', KEYS[3], stripe)
  if not stored or tonumber(fence) > tonumber(stored) then
    redis.call('HSET', KEYS[3], stripe, fence)
  end
end

-- First of the writes: where it is denied, nothing is changed. A node without fences has none to take
-- along; what is there already stays, if it is greater.
if KEYS[2] ~= KEYS[3] and redis.call('HLEN', KEYS[2]) > 0 then
  local there = redis.call('HLEN', KEYS[3]) > 0 and redis.call('HGETALL', KEYS[3]) or {}
  redis.call('RENAME', KEYS[2], KEYS[3])
  for i = 1, #there, 2 do raise(there[i], there[i + 1]) end
end
first, last = pairs_of()
for i = first, last, 2 do redis.call('HSET', KEYS[1], ARGV[i], ARGV[i + 1]) end

-- All stripes are there before the first vote.
for stripe = 0, ARGV[at] - 1 do raise(stripe, ARGV[at + 1]) end
for i = at + 2, #ARGV, 2 do raise(ARGV[i], ARGV[i + 1]) end
return 1
