-- Acquires for many leases, and releases that were asked for between them, in their order.
-- KEYS: meta, then the lock keys of all leases. ARGV: tag; for each lock key, at its own index, its
-- stripe's field; then for each lease: nonce and how many keys (negative: release), and for an
-- acquire: value, ttl in ms, deadline in µs of the server's time, token (0: no fencing), end of
-- its block. Last: the strict clock guard.
-- Answers for each lease: 1 granted and accepted, 2 granted; 3 held; 4 other tag; 5 late;
-- 6 token too far ahead; 9 and how many keys were released; 11 clock off; 12 ttl above max_ttl; or
-- the error that a command met.
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local meta = redis.call('HMGET', KEYS[1], 'tag', 'floor', 'max_ttl', unpack(ARGV, 2, #KEYS))
local floor, max_ttl = tonumber(meta[2] or 0), tonumber(meta[3] or 0)
local stored, changes = {}, {}
local guard = strict_guard(ARGV[#ARGV])
local other_tag = meta[1] ~= ARGV[1] or (guard and other_history(guard))
local clock_off = guard and clock_is_off(guard, now)

-- The answer if the key is another's. A lease that is over may be taken over.
local function other_holder(key, nonce, fence)
  local value = redis.pcall('GET', key)
  if type(value) == 'table' then return value end
  if value and string.sub(value, 1, 32) ~= nonce then
    local left = remaining(key, guard)
    if guard and left == 0 and string.find(value, '^%x+ %d+ %d+ ') then return nil end
    return {3, now, fence, value, left}
  end
end

local function acquire(first, last, nonce, at)
  if other_tag then return {4, now, meta[1] or ''} end
  local value, token = ARGV[at], tonumber(ARGV[at + 3])
  if tonumber(ARGV[at + 1]) > max_ttl then return {12, now, max_ttl} end
  local ttl = guard and ARGV[at + 1] + BACKSTOP or ARGV[at + 1]
  if now > tonumber(ARGV[at + 2]) then return {5, now} end
  if clock_off then return {11, now} end
  if token > now + 60000000 then return {6, now} end
  local fence = floor
  for i = first, last do
    local known = stored[ARGV[i]] or tonumber(meta[i + 2] or 0)
    if known > fence then fence = known end
  end
  local over = false
  if first == last then
    local set = redis.pcall('SET', KEYS[first], value, 'NX', 'PX', ttl)
    if not set then
      local other = other_holder(KEYS[first], nonce, fence)
      if other then return other end
      over = guard
    elseif set.err then
      return set
    end
  else
    for i = first, last do
      local other = other_holder(KEYS[i], nonce, fence)
      if other then return other end
    end
    over = true
  end
  if over then
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
while at < #ARGV do
  local nonce, keys = ARGV[at], tonumber(ARGV[at + 1])
  if keys < 0 then
    answers[#answers + 1] = release_keys(first, first - keys - 1, nonce, now)
    at, first = at + 2, first - keys
  else
    answers[#answers + 1] = acquire(first, first + keys - 1, nonce, at + 2)
    at, first = at + 7, first + keys
  end
end
if #changes > 0 then redis.call('HSET', KEYS[1], unpack(changes)) end
return answers
