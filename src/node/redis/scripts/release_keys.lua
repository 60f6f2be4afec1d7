-- Deletes the keys from first to last where they are those of the nonce.
local function release_keys(first, last, nonce, now)
  local deleted = 0
  for i = first, last do
    local value = redis.pcall('GET', KEYS[i])
    if type(value) == 'table' then return value end
    if value and string.sub(value, 1, 32) == nonce then
      redis.call('DEL', KEYS[i])
      deleted = deleted + 1
    end
  end
  return {9, now, deleted}
end
