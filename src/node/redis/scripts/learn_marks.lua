-- Merges the marks of jobs that other nodes have into a node in probation. Of two values, the one
-- with the greater first number is kept; of two claims with one token, the one with the greater
-- number after its `#`.
-- KEYS: meta, marks.
-- ARGV: the tag of the probation, then field and value of each mark.
-- Answers 1, or 0 in another probation.
if redis.call('HGET', KEYS[1], 'tag') ~= ARGV[1] then return 0 end

local function order(value)
  local first, number = string.match(value, '^(%d+) %d+ %d+ %d+ %d+ %d+ %d+ %d+ %d+ #(%d+) ')
  return tonumber(first or string.match(value, '^%d+') or -1), tonumber(number or 0)
end

local function merge(field, value)
  local first, number = order(value)
  local stored, stored_number = order(redis.call('HGET', KEYS[2], field) or '')
  if first > stored or (first == stored and first >= 0 and number > stored_number) then
    redis.call('HSET', KEYS[2], field, value)
  end
end

for at = 2, #ARGV, 2 do
  merge(ARGV[at], ARGV[at + 1])
  -- A claim includes its promise. A promise that was read before its claim may be outdated.
  local job = string.match(ARGV[at], '^claim:(.*)$')
  local token = job and string.match(ARGV[at + 1], '^%d+')
  if token then merge('promise:' .. job, token) end
end
return 1
