-- Acquires the locks of a lease.
-- KEYS: fences, locks.
-- ARGV: value, expiry (ms of the server's clock), token (0: none, which is never above the fence),
-- end of the token's block, the mark of the request (empty: it does not wait when it is refused), the
-- stripe of each lock.
--
-- The fences have this key only while the server votes under the view in its name. With an expiry
-- in the past nothing is stored; the client detects that by the TIME command after this call.
--
-- Answers: 1: granted, and the token is above the fence; otherwise a list: {2, fence}: granted, but
-- the token is not above it; {3, fence, value, ms}: held by another lease; {4}: other view; or the
-- error of a command.
--
-- This script is optimised for the server's time: creating a function, or a list for the answer,
-- costs a third of a command. So the code that the common case, one free name, does not need comes
-- after it.
if #KEYS == 2 then
  local fence = redis.call('ZSCORE', KEYS[1], ARGV[6])
  if not fence then return {4} end
  local set = redis.pcall('SET', KEYS[2], ARGV[1], 'NX', 'PXAT', ARGV[2])
  if set then
    if set.err then return set end
    if tonumber(fence) >= tonumber(ARGV[3]) then return {2, fence} end
    redis.call('ZADD', KEYS[1], ARGV[4], ARGV[6])
    return 1
  end
end
