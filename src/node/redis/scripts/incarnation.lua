-- Which run of which server this is, and with which history of its data: the first 16 digits of
-- the run id, which a restart changes, and of the replication id, which a promotion changes.
-- Where the server refuses INFO in scripts, the last argument has the lines of it that are needed here,
-- as it was asked outside; else it is empty. Other arguments are counted without it.
local told = table.remove(ARGV)
local sections = {}
local function info(section, field)
  sections[section] = sections[section] or told ~= '' and told or redis.call('INFO', section)
  return string.match(sections[section], field .. ':([^\r\n]*)') or ''
end

-- The first 16 digits of an id; of an id of another form, those of its hash.
local function digits(id)
  if id ~= '' and (#id ~= 40 or string.find(id, '[^0-9a-f]')) then id = redis.sha1hex(id) end
  return string.sub(id, 1, 16)
end

local function incarnation()
  return digits(info('server', 'run_id')) .. digits(info('replication', 'master_replid'))
end

-- A tag is: state (a: active, p: in probation, m: in probation, and moved from a set that may still
-- grant), run and history (32 digits), layout (16), nonce of the enrolment (16), epoch (8), hash of
-- the owners of the other names (16). Without the restart guard it ends behind the layout.
local TAG_LENGTH = 94

local function layout_of(tag)
  return string.sub(tag, 36, 51)
end

-- Empty for a tag without a nonce and an epoch.
local function incarnation_of(tag)
  if #tag ~= TAG_LENGTH then return '' end
  return string.sub(tag, 70, 77) .. ' ' .. string.sub(tag, 3, 34) .. ' ' .. string.sub(tag, 53, 68)
end

-- What max_ttl was before it was lowered, in ms; 0 where all locks of that time have expired.
local function longer_of(field)
  return tonumber(string.match(field or '', '^%d+') or 0)
end

local function epoch_of(tag)
  return tonumber(string.sub(incarnation_of(tag), 1, 8), 16) or 0
end

-- The fields of the owners of names: ARGV from first on.
local function owner_fields(first, last)
  local fields = {}
  for i = first, last do fields[#fields + 1] = 'owner:' .. ARGV[i] end
  return fields
end

-- The owners, with '' where none is known.
local function owners(fields)
  if not fields[1] then return {} end
  local owners = redis.call('HMGET', KEYS[1], unpack(fields))
  for i = 1, #fields do owners[i] = owners[i] or '' end
  return owners
end

local function new_tag(state, id, layout, nonce, epoch, fields)
  local hash = string.sub(redis.sha1hex(table.concat(owners(fields), ',')), 1, 16)
  return table.concat({state, id, layout, nonce, string.format('%08x', epoch), hash}, ' ')
end
