-- Stores a record of finished work, unless there is one already. A node of this layout in probation stores it
-- as well.
-- KEYS: meta, record.
-- ARGV: tag, the record, its retention in ms, layout.
-- Answers: 1, the record that is stored now and its remaining time in ms; 4: other tag.
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local tag = redis.call('HGET', KEYS[1], 'tag')
local votes = tag == ARGV[1] and tag ~= ''
if not votes and string.sub(tag or '', 36, 51) ~= ARGV[4] then return {4, now, tag or ''} end
local kept = redis.call('GET', KEYS[2])
if kept and string.sub(kept, 1, 1) == 'd' then return {1, now, kept, redis.call('PTTL', KEYS[2])} end
redis.call('SET', KEYS[2], ARGV[2], 'PX', ARGV[3])
return {1, now, ARGV[2], tonumber(ARGV[3])}
