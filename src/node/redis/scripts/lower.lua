-- Lowers max_ttl: longer TTLs are refused from here on. Locks of before keep theirs, so the old value
-- (`longer`) still counts in probations, until it is cleared.
-- KEYS: meta. ARGV: layout, max_ttl in ms, nonce.
-- Answers: {1, ms, longer}: the longest TTL of a lock of before, and what is to be cleared;
-- {4, tag, description} where the node belongs to another set, or is not enrolled.
local meta = redis.call('HMGET', KEYS[1], 'tag', 'max_ttl', 'longer', 'layout')
local tag, max_ttl = meta[1] or '', tonumber(meta[2] or 0)
if layout_of(tag) ~= ARGV[1] then return {4, tag, meta[4] or ''} end
local longest = math.max(max_ttl, longer_of(meta[3]))
if longest <= tonumber(ARGV[2]) then return {1, longest, ''} end
local longer = string.format('%.0f', longest) .. ' ' .. ARGV[3]
redis.call('HSET', KEYS[1], 'max_ttl', string.format('%.0f', math.min(max_ttl, ARGV[2])), 'longer',
  longer)
return {1, longest, longer}
