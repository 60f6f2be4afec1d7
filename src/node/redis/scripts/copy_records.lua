-- Stores records that another node has. An existing record of finished work is kept. A record of
-- unfinished work is replaced by a record of finished work, or by one with a longer retention.
-- KEYS: the records.
-- ARGV: value and remaining TTL in ms (negative: none) of each.
-- Answers, for each, 1 if it was stored, else 0.
local stored = {}
for i, key in ipairs(KEYS) do
  local value, ttl = ARGV[2 * i - 1], tonumber(ARGV[2 * i])
  local kept = redis.pcall('GET', key)
  local is_ours = type(kept) ~= 'table'
  if not is_ours and not string.find(kept.err, 'WRONGTYPE', 1, true) then return kept end
  local stays = is_ours and kept and string.sub(kept, 1, 1) == 'd'
  if is_ours and kept and not stays and string.sub(value, 1, 1) ~= 'd' then
    local remaining = redis.call('PTTL', key)
    stays = remaining < 0 or (ttl >= 0 and ttl <= remaining)
  end
  stored[i] = 0
  if is_ours and not stays then
    stored[i] = 1
    if ttl < 0 then redis.call('SET', key, value) else redis.call('SET', key, value, 'PX', ttl) end
  end
end
return stored
