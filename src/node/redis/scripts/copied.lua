-- The node has taken over all records. KEYS: meta. ARGV: the tag under which that was begun.
-- Answers 1; 0 where the node was enrolled anew meanwhile.
if redis.call('HGET', KEYS[1], 'tag') ~= ARGV[1] then return 0 end
redis.call('HSET', KEYS[1], 'once', '')
return 1
