-- Changes what a node stores of its membership, if that is still what the client read (record.rs).
-- KEYS: meta. ARGV: how many fields are compared; each of these with its value, '' where there is
-- none; how many fields are set; each of these with its value; how many stripes there have to be; then
-- field and number of fences, which only grow.
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
first, last = pairs_of()
for i = first, last, 2 do redis.call('HSET', KEYS[1], ARGV[i], ARGV[i + 1]) end
-- All stripes are filled before the first use: Redis keeps a small hash as a list, and that is slower.
for i = 0, ARGV[at] - 1 do redis.call('HSETNX', KEYS[1], 'f' .. i, 0) end
for i = at + 1, #ARGV, 2 do
  local stored = tonumber(redis.call('HGET', KEYS[1], ARGV[i]) or 0)
  if tonumber(ARGV[i + 1]) > stored then redis.call('HSET', KEYS[1], ARGV[i], ARGV[i + 1]) end
end
return 1
