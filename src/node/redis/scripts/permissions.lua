-- Which commands the server denies to our user, of those that the scripts and the crate call: each is
-- called so that it changes nothing that stays.
-- KEYS: a key of our own that nothing else is stored under. ARGV: a channel of our own.
-- Answers: the commands, as they are named in ACL rules.
local key, channel, denied = KEYS[1], ARGV[1], {}
local function try(name, ...)
  local answer = redis.pcall(...)
  local err = type(answer) == 'table' and answer.err
  -- Redis before 7.2 and after.
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
-- Without a valid time nothing is stored, or expires.
try('set', 'SET', key, '', 'PX', 0)
try('pexpire', 'PEXPIRE', key, '-')
try('pttl', 'PTTL', key)
try('hget', 'HGET', key, 'f')
try('hmget', 'HMGET', key, 'f')
try('hlen', 'HLEN', key)
try('hgetall', 'HGETALL', key)
try('scan', 'SCAN', 0, 'COUNT', 1)
try('hscan', 'HSCAN', key, 0, 'COUNT', 1)
-- Nothing is left that could not be deleted.
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
