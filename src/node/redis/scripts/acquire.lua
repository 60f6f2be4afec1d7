-- Acquires for many leases, and releases that were asked for between them, in their order.
-- KEYS: meta, then the lock keys of all leases. ARGV: tag; for each lock key, at its own index, its
-- stripe's field; then for each lease: nonce and how many keys (negative: release), and for an
-- acquire: value, ttl in ms, deadline in µs of the server's time, token (0: no fencing), end of
-- its block.
-- Answers for each lease: 1 granted and accepted, 2 granted; 3 held; 4 other tag; 5 late;
-- 6 token too far ahead; 9 and how many keys were released; or the error that a command met.
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local meta = redis.call('HMGET', KEYS[1], 'tag', 'floor', unpack(ARGV, 2, #KEYS))
local other_tag = (meta[1] or '') ~= ARGV[1]
local floor = tonumber(meta[2] or 0)
local stored, changes = {}, {}

local function other_holder(key, nonce, fence)
  local value = redis.pcall('GET', key)
  if type(value) == 'table' then return value end
  if value and string.sub(value, 1, 32) ~= nonce then
    return {3, now, fence, value, redis.call('PTTL', key)}
  end
end

local function acquire(first, last, nonce, at)
  if other_tag then return {4, now, meta[1] or ''} end
  local value, ttl, token = ARGV[at], ARGV[at + 1], tonumber(ARGV[at + 3])
  if now > tonumber(ARGV[at + 2]) then return {5, now} end
  if token > now + 60000000 then return {6, now} end
  local fence = floor
  for i = first, last do
    local known = stored[ARGV[i]] or tonumber(meta[i + 1] or 0)
    if known > fence then fence = known end
  end
  if first == last then
    local set = redis.pcall('SET', KEYS[first], value, 'NX', 'PX', ttl)
    if not set then
      local other = other_holder(KEYS[first], nonce, fence)
      if other then return other end
    elseif set.err then
      return set
    end
  else
    for i = first, last do
      local other = other_holder(KEYS[i], nonce, fence)
      if other then return other end
    end
    for i = first, last do
      local set = redis.pcall('SET', KEYS[i], value, 'PX', ttl)
      if set.err then return set end
    end
  end
  if token <= fence then return {2, now, fence} end
  local block_end = ARGV[at + 4]
  for i = first, last do
    stored[ARGV[i]] = tonumber(block_end)
    changes[#changes + 1] = ARGV[i]
    changes[#changes + 1] = block_end
  end
  return {1, now, fence}
end

local answers, at, first = {}, #KEYS + 1, 2
while ARGV[at] do
  local nonce, keys = ARGV[at], tonumber(ARGV[at + 1])
  if keys < 0 then
    answers[#answers + 1] = release_keys(first, first - keys - 1, nonce)
    at, first = at + 2, first - keys
  else
    answers[#answers + 1] = acquire(first, first + keys - 1, nonce, at + 2)
    at, first = at + 7, first + keys
  end
end
if #changes > 0 then redis.call('HSET', KEYS[1], unpack(changes)) end
return answers
