-- Acquires the locks of a lease. KEYS: fences, locks. ARGV: value, when it expires (ms of the server's
-- clock), token (0: none, which is never above the fence), end of its block, '+' of one that will wait where it is refused, the
-- stripe of each lock.
--
-- The fences are there under this name only while the server votes under the view that the name tells.
-- An expiry that has passed stores nothing, and the client finds out by the TIME behind this call.
--
-- Answers: 1 granted, and the token is above the fence; otherwise a list: {2, fence} granted, but it is
-- not; {3, fence, value, ms} held by another; {4} other view; or the error that a command met.
--
-- Written for the server's time: to make a function, or a list for the answer, costs a third of a
-- command. So what the common case does not need, one name that is free, comes behind it.
if #KEYS == 2 then
  local fence = redis.call('HGET', KEYS[1], ARGV[6])
  if not fence then return {4} end
  local set = redis.pcall('SET', KEYS[2], ARGV[1], 'NX', 'PXAT', ARGV[2])
  if set then
    if set.err then return set end
    if tonumber(fence) >= tonumber(ARGV[3]) then return {2, fence} end
    redis.call('HSET', KEYS[1], ARGV[6], ARGV[4])
    return 1
  end
end
