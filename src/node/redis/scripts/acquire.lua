-- Acquires for many leases, and releases that were asked for between them, in their order.
-- KEYS: meta, then the lock keys of all leases. ARGV: tag; for each lock key, at its own index, its
-- stripe's field; then for each lease: nonce and how many keys (negative: release), and for an
-- acquire: value, ttl in ms, deadline in µs of the server's time, token (0: no fencing), end of
-- its block. Last: the strict clock guard.
-- Answers for each lease: 1 granted and accepted, 2 granted; 3 held; 4 other tag; 5 late;
-- 6 token too far ahead; 9 and how many keys were released; 11 clock off; 12 ttl above max_ttl; or
-- the error that a command met.
-- The answer if the key is another's. A lease that is over may be taken over.
local function other_holder(key, nonce, fence, now, guard)
  local value = redis.pcall('GET', key)
  if type(value) == 'table' then return value end
  if value and string.sub(value, 1, 32) ~= nonce then
    local left = remaining(key, guard, now)
    if guard ~= '' and left == 0 and string.find(value, '^%x+ %d+ %d+ ') then return nil end
    return {3, now, fence, value, left}
  end
end

-- Written for the server's time: a function costs as much as a command does, so the common way
-- through needs none.
local call, pcall = redis.call, redis.pcall
local time = call('TIME')
local now = time[1] * 1000000 + time[2]
local meta = call('HMGET', KEYS[1], 'tag', 'floor', 'max_ttl', unpack(ARGV, 2, #KEYS))
local last_arg = #ARGV
local guard = ARGV[last_arg]
local is_strict, tag_ok, clock_off = guard ~= '', meta[1] == ARGV[1], false
local px = is_strict and 'PXAT' or 'PX'
if is_strict then
  tag_ok = tag_ok and not other_history(guard)
  clock_off = clock_is_off(guard, now)
end
local answers, changes, at, first = {}, {}, #KEYS + 1, 2
-- The fences that were stored by earlier leases of this call.
local stored
while at < last_arg do
  local nonce, keys = ARGV[at], tonumber(ARGV[at + 1])
  local answer
  if keys < 0 then
    keys = -keys
    answer = release_keys(first, first + keys - 1, nonce, now)
    at = at + 2
  else
    repeat
      if not tag_ok then answer = {4, now, meta[1] or ''} break end
      local value, ttl, token = ARGV[at + 2], ARGV[at + 3], tonumber(ARGV[at + 5])
      local max_ttl = tonumber(meta[3] or 0)
      if tonumber(ttl) > max_ttl then answer = {12, now, max_ttl} break end
      if now > tonumber(ARGV[at + 4]) then answer = {5, now} break end
      if clock_off then answer = {11, now} break end
      if token > now + 60000000 then answer = {6, now} break end
      if is_strict then ttl = expiry(now, ttl) end
      local last, fence = first + keys - 1, tonumber(meta[2] or 0)
      for i = first, last do
        local known = stored and stored[ARGV[i]] or tonumber(meta[i + 2] or 0)
        if known > fence then fence = known end
      end
      local set = keys == 1 and pcall('SET', KEYS[first], value, 'NX', px, ttl)
      if set then
        if set.err then answer = set break end
      else
        for i = first, last do
          answer = answer or other_holder(KEYS[i], nonce, fence, now, guard)
        end
        if answer then break end
        if keys > 1 or is_strict then
          for i = first, last do
            set = pcall('SET', KEYS[i], value, px, ttl)
            if set.err then answer = answer or set end
          end
          if answer then break end
        end
      end
      if token <= fence then answer = {2, now, fence} break end
      local block_end = ARGV[at + 6]
      stored = stored or {}
      for i = first, last do
        stored[ARGV[i]] = tonumber(block_end)
        changes[#changes + 1] = ARGV[i]
        changes[#changes + 1] = block_end
      end
      answer = {1, now, fence}
    until true
    at = at + 7
  end
  answers[#answers + 1] = answer
  first = first + keys
end
if changes[1] then call('HSET', KEYS[1], unpack(changes)) end
return answers
