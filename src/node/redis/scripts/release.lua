-- Deletes the keys of a lease that are its own.
-- KEYS: the locks.
-- ARGV: nonce, '-' if no waiter is to be woken: of an attempt that only the lead node granted.
-- Answers the number of deleted keys, or {9, number} if one had a waiter. A slot has the mark from the start;
-- it has a waiter if a process listens. A line feed at the end of
-- a value marks a waiter; the number of listeners is then published on the name's channel. Works
-- without permissions for channels.
local deleted, awaited = 0, false
for i, key in ipairs(KEYS) do
  local value = redis.pcall('GET', key)
  if type(value) == 'table' then
    if redis.call('TYPE', key).ok ~= 'zset' then return value end
    value = false
  end
  if value and string.sub(value, 1, 32) == ARGV[1] then
    redis.call('DEL', key)
    deleted = deleted + 1
    local colon = ARGV[2] ~= '-' and string.byte(value, -1) == 10 and string.find(key, ':lock:', 1, true)
    if colon then
      local name = string.sub(key, colon + 6)
      local channel = string.sub(key, 1, colon) .. 'free:' .. name
      local listening = redis.pcall('PUBSUB', 'NUMSUB', channel)
      redis.pcall('PUBLISH', channel, listening[2] or '')
      if string.sub(name, 1, 5) ~= 'slot:' or listening[2] ~= 0 then awaited = true end
    end
  end
end
return awaited and {9, deleted} or deleted
