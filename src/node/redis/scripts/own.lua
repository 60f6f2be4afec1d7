-- Stores the owners of the other names that are later than the stored ones. KEYS: meta. ARGV:
-- layout; then, for each of the other names, sorted: the name, and its owner or ''. Answers: 1; 4
-- and the tag where the node belongs to another set, or is not enrolled.
local tag = redis.call('HGET', KEYS[1], 'tag') or ''
if layout_of(tag) ~= ARGV[1] or #tag ~= TAG_LENGTH then return {4, tag} end

-- By their bytes: the order of strings depends on the server's locale.
local function is_later(owner, kept)
  for i = 1, #owner do
    local one, other = string.byte(owner, i), string.byte(kept, i) or 0
    if one ~= other then return one > other end
  end
  return false
end

local fields = {}
for at = 2, #ARGV, 2 do
  local field, owner = 'owner:' .. ARGV[at], ARGV[at + 1]
  fields[#fields + 1] = field
  if is_later(owner, redis.call('HGET', KEYS[1], field) or '') then
    redis.call('HSET', KEYS[1], field, owner)
  end
end
redis.call('HSET', KEYS[1], 'tag', new_tag(string.sub(tag, 1, 1), string.sub(tag, 3, 34), ARGV[1],
  string.sub(tag, 53, 68), epoch_of(tag), fields))
return {1}
