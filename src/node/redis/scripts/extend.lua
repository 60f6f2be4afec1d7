-- Renews the keys of a lease.
-- KEYS: meta, then the lock keys.
-- ARGV: tag, nonce, value, TTL in ms, deadline in µs of the server's time for keys that have to be
-- stored again, layout. The lease's own keys are renewed by PEXPIRE, as a full server refuses SET
-- but not PEXPIRE. A node of this layout in probation renews the keys that it has, and answers that
-- it has no vote.
-- Answers: 8: extended, 10: stored again; 3: held; 4: other tag; 5: late; 12: TTL above max_ttl,
-- which was lowered.
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local gone = {}
for i = 2, #KEYS do
  local value = redis.pcall('GET', KEYS[i])
  if type(value) == 'table' then
    if redis.call('TYPE', KEYS[i]).ok ~= 'zset' then return value end
    local ms = math.floor(now / 1000)
    local member, score = longest(KEYS[i], ms)
    if member then return {3, now, 0, shared_value(KEYS[i], member), score - ms} end
    value = false
  end
  if not value then
    gone[#gone + 1] = KEYS[i]
  elseif string.sub(value, 1, 32) ~= ARGV[2] then
    return {3, now, 0, string.sub(value, 1, 1024), redis.call('PTTL', KEYS[i])}
  end
end
local meta = redis.call('HMGET', KEYS[1], 'tag', 'max_ttl')
local tag, max_ttl = meta[1] or '', tonumber(meta[2] or 0)
local votes = tag == ARGV[1] and tag ~= ''
if not votes and string.sub(tag, 36, 51) ~= ARGV[6] then return {4, now, tag} end
if tonumber(ARGV[4]) > max_ttl then return votes and {12, now, max_ttl} or {4, now, tag} end
if votes and #gone > 0 then
  if now > tonumber(ARGV[5]) then return {5, now} end
  for _, key in ipairs(gone) do redis.call('SET', key, ARGV[3], 'PX', ARGV[4]) end
end
for i = 2, #KEYS do redis.call('PEXPIRE', KEYS[i], ARGV[4]) end
if not votes then return {4, now, tag} end
return {#gone > 0 and 10 or 8, now}
