-- The node has taken over all records. KEYS: meta. ARGV: the tag under which that was begun, without
-- the view and `max_ttl`, and what stood in `once`, which names the probation.
-- Answers 1; 0 where the node was enrolled anew meanwhile.
local meta = redis.call('HMGET', KEYS[1], 'tag', 'once')
if string.sub(meta[1] or '', 1, #ARGV[1]) ~= ARGV[1] or meta[2] ~= ARGV[2] then return 0 end
redis.call('HSET', KEYS[1], 'once', '', 'copier', '')
return 1
