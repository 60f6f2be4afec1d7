-- Moves a node from one layout to another: it stops voting at once, and starts a probation.
-- KEYS: meta. ARGV: the layout it may leave ('' where there may be none), the new layout, its
-- description, nonce, max_ttl in ms, how many stripes there are, the state ('m': the old set may
-- still grant, 'p': it can't), the tag and the mark of its clients that it must have ('': any),
-- how many nodes the set has that it leaves (0: only a command may begin the probation of 'm'),
-- how many other names the new layout has, these names, sorted; then field and number of fences to
-- be merged.
-- Keeps how the node left the other layout (`left`): its incarnation and the owners that it knew if it
-- voted, `*` if it voted and knows no owners, or nothing.
-- The owners of names begin anew: a name need not mean in one set what it means in another.
-- Answers: {1, tag, max_ttl, fields and numbers of all fences and the floor}; {3, tag} where the tag
-- or the mark is another; {4, tag, description} where the node belongs to neither.
local tag = redis.call('HGET', KEYS[1], 'tag')
local layout = tag and layout_of(tag) or ''
if layout ~= ARGV[1] and layout ~= ARGV[2] and layout ~= '' then
  return {4, tag, redis.call('HGET', KEYS[1], 'layout') or ''}
end
if (ARGV[8] ~= '' and tag ~= ARGV[8])
  or (ARGV[9] ~= '' and redis.call('HGET', KEYS[1], 'seen') ~= ARGV[9]) then
  return {3, tag or ''}
end
local max_ttl = math.max(tonumber(redis.call('HGET', KEYS[1], 'max_ttl') or 0), tonumber(ARGV[5]),
  longer_of(redis.call('HGET', KEYS[1], 'longer')))
local function left()
  local is_long = #tag == TAG_LENGTH
  local run = string.sub(tag, 3, 34)
  if string.sub(tag, 1, 1) ~= 'a' or (is_long and run ~= incarnation()) then return '' end
  if not is_long then return '*' end
  local views = {incarnation_of(tag)}
  local meta = redis.call('HGETALL', KEYS[1])
  for i = 1, #meta, 2 do
    -- Of another layout's names as well: none of those is an incarnation of this one.
    if string.sub(meta[i], 1, 6) == 'owner:' and meta[i + 1] ~= '' then views[#views + 1] = meta[i + 1] end
  end
  return table.concat(views, ',')
end

if layout ~= ARGV[2] and layout ~= '' then
  redis.call('HSET', KEYS[1], 'from', layout, 'from_size', ARGV[10], 'left', left())
end
local fields = owner_fields(12, 11 + ARGV[11])
for _, field in ipairs(fields) do redis.call('HSET', KEYS[1], field, '') end
local epoch = tag and epoch_of(tag) + 1 or 1
redis.call('HSET', KEYS[1], 'tag', new_tag(ARGV[7], incarnation(), ARGV[2], ARGV[4], epoch, fields),
  'layout', ARGV[3], 'seen', 0, 'max_ttl', string.format('%.0f', max_ttl))
for i = 0, ARGV[6] - 1 do redis.call('HSETNX', KEYS[1], 'f' .. i, 0) end
for at = 12 + ARGV[11], #ARGV, 2 do
  local stored = tonumber(redis.call('HGET', KEYS[1], ARGV[at]) or 0)
  if tonumber(ARGV[at + 1]) > stored then redis.call('HSET', KEYS[1], ARGV[at], ARGV[at + 1]) end
end
return {1, redis.call('HGET', KEYS[1], 'tag'), max_ttl, redis.call('HGETALL', KEYS[1])}
