-- Returns a page of the fields of a hash.
-- KEYS: the hash.
-- ARGV: cursor, pattern, number of fields to scan.
-- Answers: the next cursor ('0' after the last page), fields.
local page = redis.call('HSCAN', KEYS[1], ARGV[1], 'MATCH', ARGV[2], 'COUNT', ARGV[3])
local fields = {}
for i = 1, #page[2], 2 do
  fields[#fields + 1] = page[2][i]
end
return {page[1], fields}
