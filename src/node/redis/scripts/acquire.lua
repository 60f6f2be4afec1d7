-- Acquires for many leases, and releases between them, in order. KEYS: meta, then the lock keys of
-- all leases. ARGV: tag; for each lock key, at its own index, its stripe's field; then for each
-- lease: nonce and how many keys (negative: release), and for an acquire: value, ttl in ms,
-- deadline in µs of the server's time (with a + from one that will wait where it is refused), token
-- (0: no fencing), end of its block.
--
-- Answers with the nonce of the first acquire, so that no answer to another call is taken for this
-- one; the server's time; and for each lease, in order: a release's answer as in release_keys.lua,
-- and for an acquire the fence before, if it is granted and its token is above that. Otherwise the
-- error that a command met, or a list of a code, the time and more: 2 granted, but the token is not
-- above the fence, which follows; 3 held; 4 other tag; 5 late; 6 token too far ahead; 12 ttl above
-- max_ttl.
--
-- Written for the server's time: to make a function costs a third of a command, and a list in the
-- answer about as much. With fencing the common ways through make neither; helpers() makes the
-- functions that the other ways need.
local call, pcall = redis.call, redis.pcall
local time = call('TIME')
local now = time[1] * 1000000 + time[2]
local meta = call('HMGET', KEYS[1], 'tag', 'floor', 'max_ttl', unpack(ARGV, 2, #KEYS))
local last_arg, tag_ok = #ARGV, meta[1] == ARGV[1]

-- The common case: one lease of one free name. The loop below handles all others, and this one
-- where its name is not free.
local tried = false
if #KEYS == 2 and last_arg == 9 and tag_ok then
  local ttl, token = ARGV[6], tonumber(ARGV[8])
  if tonumber(ttl) <= tonumber(meta[3] or 0) and now <= tonumber(ARGV[7]) and token <= now + 60000000 then
    local set = pcall('SET', KEYS[2], ARGV[5], 'NX', 'PX', ttl)
    if set then
      if set.err then return {ARGV[3], now, set} end
      local fence, floor = tonumber(meta[4] or 0), tonumber(meta[2] or 0)
      if floor > fence then fence = floor end
      if token <= fence then return {ARGV[3], now, {2, now, fence}} end
      call('HSET', KEYS[1], ARGV[2], ARGV[9])
      return {ARGV[3], now, fence}
    end
    tried = true
  end
end

local at, first = #KEYS + 1, 2
local answers, changes = {false, now}, {}
local floor, max_ttl = tonumber(meta[2] or 0), tonumber(meta[3] or 0)
-- The fences that were stored by earlier leases of this call, and the helpers once they are needed.
local stored, made
while at <= last_arg do
  local nonce, keys = ARGV[at], tonumber(ARGV[at + 1])
  local answer
  if keys < 0 then
    keys = -keys
    -- One key without a mark, or another's, nearly always. The rest as in release_keys.lua.
    local value = keys == 1 and pcall('GET', KEYS[first])
    local own = type(value) == 'string' and string.sub(value, 1, 32) == nonce
    if keys > 1 or type(value) == 'table' or own and string.byte(value, -1) == 10 then
      made = made or helpers()
      answer = made.release_keys(first, first + keys - 1, nonce, now)
    else
      if own then call('DEL', KEYS[first]) end
      answer = own and 1 or 0
    end
    at = at + 2
  else
    answers[1] = answers[1] or nonce
    repeat
      if not tag_ok then answer = {4, now, meta[1] or ''} break end
      local value, ttl, token = ARGV[at + 2], ARGV[at + 3], tonumber(ARGV[at + 5])
      if tonumber(ttl) > max_ttl then answer = {12, now, max_ttl} break end
      if now > tonumber(ARGV[at + 4]) then answer = {5, now} break end
      if token > now + 60000000 then answer = {6, now} break end
      local last, fence = first + keys - 1, floor
      for i = first, last do
        local known = stored and stored[ARGV[i]] or tonumber(meta[i + 2] or 0)
        if known > fence then fence = known end
      end
      local set = keys == 1 and not tried and pcall('SET', KEYS[first], value, 'NX', 'PX', ttl)
      if set then
        if set.err then answer = set break end
      else
        made = made or helpers()
        for i = first, last do
          answer = answer or made.other_holder(KEYS[i], nonce, fence, now, ARGV[at + 4])
        end
        if answer then break end
        if keys > 1 then
          for i = first, last do
            set = pcall('SET', KEYS[i], value, 'PX', ttl)
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
      answer = fence
    until true
    at = at + 7
  end
  answers[#answers + 1] = answer
  first = first + keys
end
if changes[1] then call('HSET', KEYS[1], unpack(changes)) end
return answers
