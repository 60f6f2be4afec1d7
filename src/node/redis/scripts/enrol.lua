-- Looks at the node's tag, and enrols a node that has none, or one of an earlier incarnation.
-- KEYS: meta. ARGV: layout, its description, nonce, max_ttl in ms, 'on' or 'off' (the restart
-- guard), 'raise' where max_ttl may be raised on an active node, how many stripes there are.
-- Answers: TIME in µs, role, run id, incarnation, tag, max_ttl, floor, description of the stored
-- layout, 'copying' while done records are being copied, the replication id's first digits.
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local role = info('replication', 'role')
local run_id = info('server', 'run_id')
local current = ARGV[5] == 'on' and incarnation() or string.rep('0', 32)

-- All stripes are filled before the first use: Redis keeps a small hash as a list, and that is slower.
local function prefill()
  if redis.call('HLEN', KEYS[1]) < tonumber(ARGV[7]) then
    for i = 0, ARGV[7] - 1 do redis.call('HSETNX', KEYS[1], 'f' .. i, 0) end
  end
end

local function raise_max_ttl(stored)
  if tonumber(ARGV[4]) > stored then redis.call('HSET', KEYS[1], 'max_ttl', ARGV[4]) end
end

if role == 'master' then
  local tag = redis.call('HGET', KEYS[1], 'tag')
  local max_ttl = tonumber(redis.call('HGET', KEYS[1], 'max_ttl') or 0)
  local same_layout = tag and layout_of(tag) == ARGV[1]
  if not tag or (same_layout and string.sub(tag, 3, 34) ~= current) then
    local moved = tag and string.sub(tag, 1, 1) == 'm'
    local state = ARGV[5] ~= 'on' and 'a' or moved and 'm' or 'p'
    tag = state .. ' ' .. current .. ' ' .. ARGV[1]
    if state ~= 'a' then tag = tag .. ' ' .. ARGV[3] end
    redis.call('HSET', KEYS[1], 'tag', tag, 'layout', ARGV[2])
    raise_max_ttl(max_ttl)
    prefill()
  elseif same_layout and (string.sub(tag, 1, 1) ~= 'a' or ARGV[6] == 'raise') then
    raise_max_ttl(max_ttl)
  end
end

local meta = redis.call('HMGET', KEYS[1], 'tag', 'max_ttl', 'floor', 'layout', 'once')
return {now, role, run_id, current, meta[1] or '', tonumber(meta[2] or 0), tonumber(meta[3] or 0),
  meta[4] or '', meta[5] or '', string.sub(info('replication', 'master_replid'), 1, 16)}
