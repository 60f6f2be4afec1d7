-- Looks at the node's tag, and enrols a node that has none, or one of an earlier incarnation.
-- KEYS: meta. ARGV: layout, its description, nonce, max_ttl in ms, 'on' or 'off' (the restart
-- guard), 'raise' where max_ttl may be raised on an active node, how many stripes there are,
-- 'enrol' unless the node was last seen to belong to another set; the least epoch of a new
-- enrolment; the incarnation that is to be enrolled anew, as another one owns its name, or '';
-- the names of the other nodes, sorted.
-- Answers: TIME in µs, role, run id, run and history, tag, max_ttl, floor, description of the stored
-- layout, 'copying' (or 'copying bootstrapped') and a nonce while done records are being copied, the
-- owners of the other names; what changes while clients of the node's set look at it, how many nodes
-- that set has, the layout and the number of nodes of the set that it was moved from; what max_ttl was
-- before it was lowered.
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local role = info('replication', 'role')
local run_id = info('server', 'run_id')
local guarded = ARGV[5] == 'on'
local current = guarded and incarnation() or string.rep('0', 32)
local fields = owner_fields(11, #ARGV)

-- All stripes are filled before the first use: Redis keeps a small hash as a list, and that is slower.
local function prefill()
  if redis.call('HLEN', KEYS[1]) < tonumber(ARGV[7]) then
    for i = 0, ARGV[7] - 1 do redis.call('HSETNX', KEYS[1], 'f' .. i, 0) end
  end
end

local function raise_max_ttl(stored)
  if tonumber(ARGV[4]) > stored then redis.call('HSET', KEYS[1], 'max_ttl', ARGV[4]) end
end

if role == 'master' and ARGV[8] == 'enrol' then
  local tag = redis.call('HGET', KEYS[1], 'tag')
  local max_ttl = tonumber(redis.call('HGET', KEYS[1], 'max_ttl') or 0)
  local same_layout = tag and layout_of(tag) == ARGV[1]
  local same_run = same_layout and string.sub(tag, 3, 34) == current
  local displaced = same_run and ARGV[10] ~= '' and incarnation_of(tag) == ARGV[10]
  -- Of an earlier version, which knew no owners.
  local incomplete = same_run and guarded and #tag ~= TAG_LENGTH
  -- Of a script that runs on full servers as well: a blank one is of no use when it is full.
  local limit = not tag and tonumber(info('memory', 'maxmemory')) or 0
  if limit > 0 and (tonumber(info('memory', 'used_memory')) or 0) > limit then
    return {err = "OOM command not allowed when used memory > 'maxmemory'."}
  end
  if not tag or (same_layout and not same_run) or displaced or incomplete then
    local was = tag and string.sub(tag, 1, 1)
    local state = was == 'm' and 'm' or incomplete and was or 'p'
    if guarded then
      -- At least the time in seconds: a client that has not seen the former owner of the name still
      -- enrols its successor above it.
      local seconds = math.min(math.floor(now / 1000000), 4000000000)
      local epoch = math.max(tonumber(ARGV[9]), tag and epoch_of(tag) + 1 or 1, seconds)
      tag = new_tag(state, current, ARGV[1], ARGV[3], epoch, fields)
    else
      tag = 'a ' .. current .. ' ' .. ARGV[1]
    end
    redis.call('HSET', KEYS[1], 'tag', tag, 'layout', ARGV[2])
    raise_max_ttl(max_ttl)
    prefill()
    same_layout = true
  elseif same_layout and (string.sub(tag, 1, 1) ~= 'a' or ARGV[6] == 'raise') then
    raise_max_ttl(max_ttl)
  end
  -- The set is in use: see takeover.rs. A full server may refuse it.
  local seen = tonumber(redis.call('HGET', KEYS[1], 'seen') or 0)
  if same_layout and (now < seen or now - seen > max_ttl * 250) then
    redis.pcall('HSET', KEYS[1], 'seen', string.format('%.0f', now), 'size', #fields + 1)
  end
end

local meta = redis.call('HMGET', KEYS[1], 'tag', 'max_ttl', 'floor', 'layout', 'once', 'seen', 'size',
  'from', 'from_size', 'longer')
return {now, role, run_id, current, meta[1] or '', tonumber(meta[2] or 0), tonumber(meta[3] or 0),
  meta[4] or '', meta[5] or '', owners(fields), meta[6] or '', tonumber(meta[7] or 0), meta[8] or '',
  tonumber(meta[9] or 0), longer_of(meta[10])}
