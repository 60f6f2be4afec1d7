-- The leases that share a key. While it is shared, the key of a lock is a sorted set. Its members are
-- the values of the leases, with their ends as scores, in ms of the server's clock; and the marks of
-- exclusive requests that wait, the value of a lease without a token each, with their ends less 1e13 as
-- scores, which are negative. While there is a mark, no further lease may join.

-- Returns the server's time in ms.
local function now_ms()
  local time = redis.call('TIME')
  return time[1] * 1000 + math.floor(time[2] / 1000)
end

-- Returns the lease that lasts longest and its end, or nil if none is left. Removes leases and marks
-- that ended. Earlier versions mark a key by the member '\n', with its end as its score.
local function longest(key, now)
  redis.call('ZREMRANGEBYSCORE', key, 0, now)
  redis.call('ZREMRANGEBYSCORE', key, '-inf', now - 1e13)
  local top = redis.call('ZRANGE', key, 0, 1, 'REV', 'WITHSCORES')
  local member, score = top[1], tonumber(top[2])
  if member == '\n' then member, score = top[3], tonumber(top[4]) end
  if score and score > 0 then return member, score end
end

-- Returns the mark that lasts longest and its end, or nil if no exclusive request waits.
local function marked(key)
  local top = redis.call('ZRANGE', key, '(0', '-inf', 'BYSCORE', 'REV', 'LIMIT', 0, 1, 'WITHSCORES')
  if top[1] then return top[1], tonumber(top[2]) + 1e13 end
end

-- Sets the key to expire with its last member.
local function expire(key)
  local top = redis.call('ZRANGE', key, 0, 0, 'REV', 'WITHSCORES')
  local _, last = marked(key)
  if top[2] then redis.call('PEXPIREAT', key, math.max(tonumber(top[2]), last or 0)) end
end

-- Wakes the requests that wait for a key: publishes the number of listeners on the name's channel.
local function publish_free(key)
  local colon = string.find(key, ':lock:', 1, true)
  local channel = string.sub(key, 1, colon) .. 'free:' .. string.sub(key, colon + 6)
  local listening = redis.pcall('PUBSUB', 'NUMSUB', channel)
  redis.pcall('PUBLISH', channel, listening[2] or '')
end

-- Sends the owner of each lease the name, after `what`, on its channel.
local function tell_owners(key, what)
  local colon = string.find(key, ':lock:', 1, true)
  for _, lease in ipairs(redis.call('ZRANGE', key, 0, '+inf', 'BYSCORE')) do
    local owner = string.match(lease, '^%x+ %d+ %d+ (.*)$')
    if owner then
      local channel = string.sub(key, 1, colon) .. 'free:\r' .. owner
      redis.pcall('PUBLISH', channel, what .. string.sub(key, colon + 6))
    end
  end
end

-- Returns the value that stands for all leases of a key: the one that lasts longest, a vertical tab,
-- and their number, and a line feed and the mark if an exclusive request waits.
local function shared_value(key, member)
  local mark = marked(key)
  local count = redis.call('ZCARD', key) - #redis.call('ZRANGE', key, '-inf', '(0', 'BYSCORE')
  return string.sub(member, 1, 1024) .. '\v' .. count .. (mark and '\n' .. string.sub(mark, 1, 1024) or '')
end
