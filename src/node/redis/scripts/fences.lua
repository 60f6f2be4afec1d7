-- Returns the fences under a key, and the tag of their node.
-- KEYS: the fences, meta.
-- Answers {stripe and fence of each, tag}.
return {redis.call('ZRANGE', KEYS[1], 0, -1, 'WITHSCORES'), redis.call('HGET', KEYS[2], 'tag')}
