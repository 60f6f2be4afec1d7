-- The leases that share a key. While it is shared, the key of a lock is a sorted set: the members are
-- the values of the leases, their scores when they end, in ms of the server's clock. The member '\n'
-- is the mark of exclusive requests that wait: until its score no further lease may join.

-- Returns the server's time in ms.
local function now_ms()
  local time = redis.call('TIME')
  return time[1] * 1000 + math.floor(time[2] / 1000)
end

-- Returns the lease that lasts longest and its end, or nil if none is left. Removes those that ended.
local function longest(key, now)
  redis.call('ZREMRANGEBYSCORE', key, '-inf', now)
  local top = redis.call('ZRANGE', key, 0, 1, 'REV', 'WITHSCORES')
  if top[1] == '\n' then return top[3], tonumber(top[4]) end
  return top[1], tonumber(top[2])
end

-- Sets the key to expire with its last member.
local function expire(key)
  local top = redis.call('ZRANGE', key, 0, 0, 'REV', 'WITHSCORES')
  if top[2] then redis.call('PEXPIREAT', key, top[2]) end
end

-- Wakes the requests that wait for a key: publishes the number of listeners on the name's channel.
local function publish_free(key)
  local colon = string.find(key, ':lock:', 1, true)
  local channel = string.sub(key, 1, colon) .. 'free:' .. string.sub(key, colon + 6)
  local listening = redis.pcall('PUBSUB', 'NUMSUB', channel)
  redis.pcall('PUBLISH', channel, listening[2] or '')
end

-- Returns the value that stands for all leases of a key: the one that lasts longest, a vertical tab,
-- and their number, and a line feed if an exclusive request waits.
local function shared_value(key, member)
  local marked = redis.call('ZSCORE', key, '\n') and 1 or 0
  local count = redis.call('ZCARD', key) - marked
  return string.sub(member, 1, 1024) .. '\v' .. count .. (marked == 1 and '\n' or '')
end
