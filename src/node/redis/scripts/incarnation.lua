-- Which run of which server this is, and with which history of its data: the first 16 digits of
-- the run id, which a restart changes, and of the replication id, which a promotion changes.
local function info(section, field)
  return string.match(redis.call('INFO', section), field .. ':([^\r\n]*)') or ''
end

local function incarnation()
  return string.sub(info('server', 'run_id'), 1, 16)
    .. string.sub(info('replication', 'master_replid'), 1, 16)
end

-- A tag is: state (a: active, p: in probation, m: in probation, and moved from a set that may still
-- grant), incarnation, layout; in probation a nonce as well.
local function layout_of(tag)
  return string.sub(tag, 36, 51)
end
