-- KEYS: meta. ARGV: how many stripes there are.
-- A replica refuses the first write, so that it is not taken for a node that votes.
-- All stripes are filled before the first use: Redis keeps a small hash as a list, and that is slower.
redis.call('HSETNX', KEYS[1], 'f0', 0)
if redis.call('HLEN', KEYS[1]) < tonumber(ARGV[1]) then
  for i = 0, ARGV[1] - 1 do redis.call('HSETNX', KEYS[1], 'f' .. i, 0) end
end
return 1
