-- Deletes the keys of one or many leases where they are the lease's own. KEYS: the lock keys of all
-- leases. ARGV: for each lease: nonce, and how many keys, negative. Answers with a minus and the first
-- nonce, as acquire.lua with that of an acquire; the server's time; and for each lease as
-- release_keys.lua.
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local answers, first = {'-' .. ARGV[1], now}, 1
for at = 1, #ARGV, 2 do
  local keys = -ARGV[at + 1]
  answers[#answers + 1] = release_keys(first, first + keys - 1, ARGV[at], now)
  first = first + keys
end
return answers
