"""The Lua scripts of the ingest ledger. Each lists its keys and arguments.

Scripts that choose a tenant build the keys of its jobs themselves.
"""

from __future__ import annotations

ADD = """
-- keys: job, jobs of the tenant, waiting jobs of the tenant, tenants, jobs of the tenant with names
-- args: job id, tenant, created, collection, progress, status, seconds for which it is kept if it has ended,
--       1 if its progress names documents
-- returns 1, or 0 (the job is in Redis already)
if redis.call('EXISTS', KEYS[1]) == 1 then return 0 end
redis.call('HSET', KEYS[1], 'status', ARGV[6], 'progress', ARGV[5], 'collection', ARGV[4], 'created', ARGV[3])
redis.call('ZADD', KEYS[2], ARGV[3], ARGV[1])
if ARGV[6] ~= 'queued' then
  redis.call('EXPIRE', KEYS[1], ARGV[7])
  if ARGV[8] == '1' then
    redis.call('SADD', KEYS[5], ARGV[1])
    redis.call('EXPIRE', KEYS[5], ARGV[7])
  end
  return 1
end
local waiting = redis.call('LRANGE', KEYS[3], 0, -1)
local later  -- the last of those that were accepted after it, from the end on
for i = #waiting, 1, -1 do
  local created = redis.call('HGET', 'rag:' .. ARGV[2] .. ':job:' .. waiting[i], 'created')
  if not created or tonumber(created) <= tonumber(ARGV[3]) then break end
  later = waiting[i]
end
if later then redis.call('LINSERT', KEYS[3], 'BEFORE', later, ARGV[1]) else redis.call('RPUSH', KEYS[3], ARGV[1]) end
redis.call('ZADD', KEYS[4], 'NX', 0, ARGV[2])
return 1
"""

ADOPT = """
-- a job of an earlier version, whose order was that of its messages
-- keys: job, waiting jobs of the tenant, tenants; args: job id, tenant
-- returns 1 if it waits from now on
if redis.call('HEXISTS', KEYS[1], 'status') == 1 then return 0 end
local progress = redis.call('HGET', KEYS[1], 'progress')
if not progress then return 0 end
local status = cjson.decode(progress).status
redis.call('HSET', KEYS[1], 'status', status)
if status ~= 'queued' and status ~= 'running' then return 0 end
redis.call('HSET', KEYS[1], 'status', 'queued')
redis.call('PERSIST', KEYS[1])
redis.call('RPUSH', KEYS[2], ARGV[1])
redis.call('ZADD', KEYS[3], 'NX', 0, ARGV[2])
return 1
"""

TAKE = """
-- keys: tenants, running jobs, turn; args: worker, or '' to take nothing
-- returns {tenant, job id, attempts} or false
local busy = {}
local running = redis.call('HGETALL', KEYS[2])
for i = 1, #running, 2 do
  local tenant = string.match(running[i], '^(%S+) ')
  local collection = string.match(running[i + 1], ' (%S+)$')
  busy[tenant .. ' ' .. collection] = true
end
for _, tenant in ipairs(redis.call('ZRANGE', KEYS[1], 0, -1)) do
  local waiting = 'rag:' .. tenant .. ':jobs:waiting'
  for _, id in ipairs(redis.call('LRANGE', waiting, 0, -1)) do
    local job = 'rag:' .. tenant .. ':job:' .. id
    local collection = redis.call('HGET', job, 'collection')
    if not collection then
      redis.call('LREM', waiting, 1, id)
    elseif not busy[tenant .. ' ' .. collection] then
      if ARGV[1] == '' then return {tenant, id, 0} end
      redis.call('LREM', waiting, 1, id)
      redis.call('HSET', job, 'status', 'running', 'worker', ARGV[1])
      redis.call('HSET', KEYS[2], tenant .. ' ' .. id, ARGV[1] .. ' ' .. collection)
      redis.call('ZADD', KEYS[1], redis.call('INCR', KEYS[3]), tenant)
      return {tenant, id, redis.call('HINCRBY', job, 'attempts', 1)}
    end
  end
end
return false
"""

_CLAIMED = """
local function claimed(worker)
  return redis.call('HGET', KEYS[1], 'status') == 'running' and redis.call('HGET', KEYS[1], 'worker') == worker
end
"""

STATE = f"""
-- keys: job; args: worker
-- returns 'claimed', 'cancelled' or 'lost'
{_CLAIMED}
if not claimed(ARGV[1]) then return 'lost' end
return redis.call('HEXISTS', KEYS[1], 'cancel') == 1 and 'cancelled' or 'claimed'
"""

REPORT = f"""
-- keys: job; args: worker, progress
-- returns 1, or 0 (it is another's)
{_CLAIMED}
if not claimed(ARGV[1]) then return 0 end
redis.call('HSET', KEYS[1], 'progress', ARGV[2])
return 1
"""

END = f"""
-- keys: job, running jobs, ended jobs, jobs of the tenant with names
-- args: worker, progress, status, running job's field, seconds for which it is kept, job id,
--       1 if its progress names documents
-- returns 1, or 0 (it is another's)
{_CLAIMED}
if not claimed(ARGV[1]) then return 0 end
redis.call('HSET', KEYS[1], 'status', ARGV[3], 'progress', ARGV[2])
redis.call('HDEL', KEYS[1], 'worker', 'cancel', 'request', 'attempts')
redis.call('EXPIRE', KEYS[1], ARGV[5])
redis.call('HDEL', KEYS[2], ARGV[4])
redis.call('HINCRBY', KEYS[3], ARGV[3], 1)
if ARGV[7] == '1' then
  redis.call('SADD', KEYS[4], ARGV[6])
  redis.call('EXPIRE', KEYS[4], ARGV[5])
end
return 1
"""

REPLACE = """
-- of a job that has ended
-- keys: job; args: progress
if redis.call('EXISTS', KEYS[1]) == 1 then redis.call('HSET', KEYS[1], 'progress', ARGV[1]) end
return 1
"""

RENAME = """
-- jobs that have ended
-- keys: jobs of the tenant; args: tenant, collection, its new name
for _, id in ipairs(redis.call('ZRANGE', KEYS[1], 0, -1)) do
  local job = 'rag:' .. ARGV[1] .. ':job:' .. id
  local held = redis.call('HMGET', job, 'collection', 'status')
  if held[1] == ARGV[2] and held[2] ~= 'queued' and held[2] ~= 'running' then
    redis.call('HSET', job, 'collection', ARGV[3])
  end
end
return 1
"""

PUT_BACK = f"""
-- keys: job, running jobs, waiting jobs of the tenant; args: worker, job id, running job's field
-- returns 1, or 0 (it is another's)
{_CLAIMED}
if not claimed(ARGV[1]) then return 0 end
redis.call('HSET', KEYS[1], 'status', 'queued')
redis.call('HDEL', KEYS[1], 'worker')
redis.call('HINCRBY', KEYS[1], 'attempts', -1)
redis.call('HDEL', KEYS[2], ARGV[3])
redis.call('LPUSH', KEYS[3], ARGV[2])
return 1
"""

CANCEL = """
-- keys: job, waiting jobs of the tenant, ended jobs; args: job id, seconds for which it is kept
-- returns 'ended' (it waited), 'stopping' (it runs) or '' (it had ended, or is unknown)
local status = redis.call('HGET', KEYS[1], 'status')
if status == 'running' then
  redis.call('HSET', KEYS[1], 'cancel', 1)
  return 'stopping'
end
if status ~= 'queued' then return '' end
redis.call('LREM', KEYS[2], 0, ARGV[1])
redis.call('HSET', KEYS[1], 'status', 'cancelled')
redis.call('HDEL', KEYS[1], 'request', 'attempts')
redis.call('EXPIRE', KEYS[1], ARGV[2])
redis.call('HINCRBY', KEYS[3], 'cancelled', 1)
return 'ended'
"""

RECLAIM = """
-- keys: running jobs, workers
-- args: calling worker, seconds after which a silent worker's jobs are reclaimed, number of jobs it works on, their
--       ids, then ids of those that it could not put back
-- returns the number of jobs that wait again, in order of acceptance for each tenant
local since = redis.call('TIME')[1] - ARGV[2]
local mine, not_put_back = {}, {}
for i = 4, 3 + ARGV[3] do mine[ARGV[i]] = true end
for i = 4 + ARGV[3], #ARGV do not_put_back[ARGV[i]] = true end
local lost = {}
local running = redis.call('HGETALL', KEYS[1])
for i = 1, #running, 2 do
  local tenant, id = string.match(running[i], '^(%S+) (%S+)$')
  local worker = string.match(running[i + 1], '^(.+) %S+$')
  local heard = redis.call('ZSCORE', KEYS[2], worker)
  local works = heard and tonumber(heard) >= since
  if worker == ARGV[1] then
    works = mine[id]
    if not_put_back[id] then redis.call('HINCRBY', 'rag:' .. tenant .. ':job:' .. id, 'attempts', -1) end
  end
  if not works then
    local created = redis.call('HGET', 'rag:' .. tenant .. ':job:' .. id, 'created') or '0'
    lost[#lost + 1] = {tenant, id, running[i], tonumber(created)}
  end
end
table.sort(lost, function(one, other) return one[4] > other[4] end)
for _, job in ipairs(lost) do
  local key = 'rag:' .. job[1] .. ':job:' .. job[2]
  redis.call('HDEL', KEYS[1], job[3])
  if redis.call('HGET', key, 'status') == 'running' then
    redis.call('HSET', key, 'status', 'queued')
    redis.call('HDEL', key, 'worker')
    redis.call('LPUSH', 'rag:' .. job[1] .. ':jobs:waiting', job[2])
  end
end
return #lost
"""

COUNTS = """
-- keys: tenants, running jobs
-- returns {queued, created of the oldest or '', running, created of the oldest or ''}
local function older(one, other)
  if not other then return one end
  if one == '' or tonumber(other) < tonumber(one) then return other end
  return one
end
local queued, first, running, oldest = 0, '', 0, ''
for _, tenant in ipairs(redis.call('ZRANGE', KEYS[1], 0, -1)) do
  local waiting = 'rag:' .. tenant .. ':jobs:waiting'
  queued = queued + redis.call('LLEN', waiting)
  local id = redis.call('LINDEX', waiting, 0)
  if id then first = older(first, redis.call('HGET', 'rag:' .. tenant .. ':job:' .. id, 'created')) end
end
for _, field in ipairs(redis.call('HKEYS', KEYS[2])) do
  local tenant, id = string.match(field, '^(%S+) (%S+)$')
  running = running + 1
  oldest = older(oldest, redis.call('HGET', 'rag:' .. tenant .. ':job:' .. id, 'created'))
end
return {queued, first, running, oldest}
"""
