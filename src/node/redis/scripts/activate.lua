-- Ends a node's probation: from here on it votes. KEYS: meta. ARGV: the tag of the probation, the
-- time waited in ms, max_ttl in ms, floor (0: none), 'bootstrap' where there are too few others to
-- learn from, what stands in `once`, before a nonce, while done records are still to be copied, or
-- ''; then field and number of each fence. Marks were learnt before, by learn_marks.lua. Answers:
-- {1, tag} active; {2, ms} not waited long enough; {3, tag} another probation.
local tag = redis.call('HGET', KEYS[1], 'tag') or ''
if tag ~= ARGV[1] then return {3, tag} end
local layout = layout_of(tag)
if string.sub(tag, 3, 34) ~= incarnation() then return {3, tag} end
local max_ttl = math.max(tonumber(redis.call('HGET', KEYS[1], 'max_ttl') or 0), tonumber(ARGV[3]))
local longest = math.max(max_ttl, longer_of(redis.call('HGET', KEYS[1], 'longer')))
if tonumber(ARGV[2]) < longest then return {2, longest} end

local floor = math.max(tonumber(redis.call('HGET', KEYS[1], 'floor') or 0), tonumber(ARGV[4]))
if ARGV[5] == 'bootstrap' then
  -- No script takes a token further ahead, so none that was ever granted is above this.
  local time = redis.call('TIME')
  floor = math.max(floor, time[1] * 1000000 + time[2] + 60000000)
end

for at = 7, #ARGV, 2 do
  local stored = tonumber(redis.call('HGET', KEYS[1], ARGV[at]) or 0)
  if tonumber(ARGV[at + 1]) > stored then redis.call('HSET', KEYS[1], ARGV[at], ARGV[at + 1]) end
end
tag = 'a' .. string.sub(tag, 2)
redis.call('HSET', KEYS[1], 'tag', tag, 'max_ttl', string.format('%.0f', max_ttl), 'floor',
  string.format('%.0f', floor), 'learner', '', 'once', ARGV[6] == '' and '' or ARGV[6] .. string.sub(ARGV[1], 52, 68))
return {1, tag}
