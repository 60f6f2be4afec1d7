-- A page of names. KEYS: the hash whose fields are scanned, or none for the keys of the server. ARGV:
-- cursor, pattern, number of keys to look at, length of the prefix that is no part of the names.
-- Answers: 1, nothing, the next cursor ('0' after the last page), names. Keys that are no strings are
-- not ours.
local page, step
if KEYS[1] then
  page, step = redis.call('HSCAN', KEYS[1], ARGV[1], 'MATCH', ARGV[2], 'COUNT', ARGV[3]), 2
else
  page, step = redis.call('SCAN', ARGV[1], 'MATCH', ARGV[2], 'COUNT', ARGV[3], 'TYPE', 'string'), 1
end
local names = {}
for i = 1, #page[2], step do
  names[#names + 1] = string.sub(page[2][i], ARGV[4] + 1)
end
return {1, false, page[1], names}
