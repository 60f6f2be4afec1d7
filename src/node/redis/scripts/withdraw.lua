-- Removes the mark of an exclusive request that waits. If no other one waits, the shared requests that
-- it kept out are woken, and the owners of leases may share them again: a line feed before the name.
-- KEYS: the locks.
-- ARGV: the mark.
-- Answers the number of removed marks.
local removed = 0
for _, key in ipairs(KEYS) do
  if redis.call('TYPE', key).ok == 'zset' and redis.call('ZREM', key, ARGV[1]) == 1 then
    removed = removed + 1
    longest(key, now_ms())
    if not marked(key) then
      publish_free(key)
      tell_owners(key, '\n')
    end
    expire(key)
  end
end
return removed
