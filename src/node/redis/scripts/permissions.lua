-- Returns the commands that the server denies to the client's user, of the commands that the
-- scripts and the crate call. Each is called without a lasting effect.
-- KEYS: a key that no lock has.
-- ARGV: a channel of this crate.
-- Answers: the commands, as ACL rules name them.
local key, channel, denied = KEYS[1], ARGV[1], {}
local function try(name, ...)
  local answer = redis.pcall(...)
  local err = type(answer) == 'table' and answer.err
  -- The first text is used before Redis 7.2, the second one since.
  if err and (string.find(err, "can't run this command", 1, true)
      or string.find(err, 'permissions to run the', 1, true)) then
    denied[#denied + 1] = name
    return false
  end
  if err and name == 'publish' and string.find(err, ' channel', 1, true) then
    denied[#denied + 1] = '&' .. channel .. '*'
  end
  return true
end
try('time', 'TIME')
try('info', 'INFO', 'server')
try('get', 'GET', key)
-- The invalid time makes the command fail, so nothing is stored or expires.
try('set', 'SET', key, '', 'PX', 0)
try('pexpire', 'PEXPIRE', key, '-')
try('pexpireat', 'PEXPIREAT', key, '-')
try('type', 'TYPE', key)
try('zscore', 'ZSCORE', key, 'm')
try('zcard', 'ZCARD', key)
try('zrange', 'ZRANGE', key, 0, 0)
try('zrem', 'ZREM', key, 'm')
try('zremrangebyscore', 'ZREMRANGEBYSCORE', key, 0, 0)
-- The invalid score makes the command fail.
try('zadd', 'ZADD', key, '-', 'm')
try('pttl', 'PTTL', key)
try('hget', 'HGET', key, 'f')
try('hmget', 'HMGET', key, 'f')
try('hlen', 'HLEN', key)
try('hgetall', 'HGETALL', key)
try('scan', 'SCAN', 0, 'COUNT', 1)
try('hscan', 'HSCAN', key, 0, 'COUNT', 1)
-- Nothing is stored that could not be deleted.
if try('del', 'DEL', key) then
  try('hset', 'HSET', key, 'f', 0)
  try('rename', 'RENAME', key, key)
  try('hdel', 'HDEL', key, 'f')
  redis.pcall('DEL', key)
end
try('ping', 'PING')
try('publish', 'PUBLISH', channel, '')
try('pubsub|numsub', 'PUBSUB', 'NUMSUB', channel)
return denied
