-- Marks the node as complete: it has copied all records.
-- KEYS: meta.
-- ARGV: the tag under which the copy began, without the view and `max_ttl`, and the value of
-- `once`, which names the probation.
-- Answers 1, or 0 if the node was enrolled again meanwhile.
local meta = redis.call('HMGET', KEYS[1], 'tag', 'once')
if string.sub(meta[1] or '', 1, #ARGV[1]) ~= ARGV[1] or meta[2] ~= ARGV[2] then return 0 end
redis.call('HSET', KEYS[1], 'once', '', 'copier', '')
return 1
