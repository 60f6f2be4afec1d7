-- KEYS: meta. ARGV: how many stripes there are.
-- All stripes are filled before the first use: Redis keeps a small hash as a list, and that is slower.
if redis.call('HLEN', KEYS[1]) < tonumber(ARGV[1]) then
  for i = 0, ARGV[1] - 1 do redis.call('HSETNX', KEYS[1], 'f' .. i, 0) end
end
return redis.call('HLEN', KEYS[1])
