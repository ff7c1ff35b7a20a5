"""The Lua scripts: changes that Redis makes together or not at all. Each lists its keys and arguments."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from workers.errors import unavailable

CREATE = """
-- keys: record, events, session, session answers, sessions, claim, versions, session texts, unfinished
-- args: ttl, passages event, created, session id or '', answer id, session ttl, seconds of the claim or '',
--       first version or '', seconds for which versions and texts are kept, texts by name as a JSON object,
--       its task, then field/value pairs of the record
-- returns 1, 0 (the record exists already) or -1 (the session is not claimed for this answer)
if redis.call('EXISTS', KEYS[1]) == 1 then return 0 end
if ARGV[7] ~= '' then
  if redis.call('GET', KEYS[6]) ~= ARGV[5] then return -1 end
  redis.call('EXPIRE', KEYS[6], ARGV[7])
end
if ARGV[8] ~= '' then
  if redis.call('EXISTS', KEYS[7]) == 0 then redis.call('RPUSH', KEYS[7], ARGV[8]) end
  redis.call('RPUSH', KEYS[7], ARGV[5])
  redis.call('EXPIRE', KEYS[7], ARGV[9])
end
for i = 12, #ARGV, 2 do redis.call('HSET', KEYS[1], ARGV[i], ARGV[i + 1]) end
redis.call('XADD', KEYS[2], '*', 'event', ARGV[2])
redis.call('EXPIRE', KEYS[1], ARGV[1])
redis.call('EXPIRE', KEYS[2], ARGV[1])
redis.call('SADD', KEYS[9], ARGV[11])
if ARGV[4] == '' then return 1 end
redis.call('HSETNX', KEYS[3], 'created', ARGV[3])
redis.call('HSET', KEYS[3], 'updated', ARGV[3])
redis.call('SADD', KEYS[4], ARGV[5])
redis.call('ZADD', KEYS[5], ARGV[3], ARGV[4])
for i = 3, 4 do redis.call('EXPIRE', KEYS[i], ARGV[6]) end
for name, text in pairs(cjson.decode(ARGV[10])) do redis.call('HSETNX', KEYS[8], name, text) end
redis.call('EXPIRE', KEYS[8], ARGV[9])
return 1
"""

FORGET = """
-- undoes CREATE. keys: record, events, session, session answers, sessions, claim, versions, session texts, unfinished,
--                     turns
-- args: session id, answer id, its task
redis.call('DEL', KEYS[1], KEYS[2])
redis.call('SREM', KEYS[9], ARGV[3])
redis.call('SREM', KEYS[4], ARGV[2])
if redis.call('GET', KEYS[6]) == ARGV[2] then redis.call('DEL', KEYS[6]) end
redis.call('LREM', KEYS[7], 0, ARGV[2])
if redis.call('EXISTS', KEYS[4], KEYS[10]) == 0 then
  redis.call('DEL', KEYS[3], KEYS[8])
  redis.call('ZREM', KEYS[5], ARGV[1])
end
return 1
"""

CLAIM = """
-- keys: claim, turns; args: answer id, seconds of the claim
-- returns {'', number of turns} once the session's next turn belongs to this answer, else {the answer it belongs to, 0}
local holder = redis.call('GET', KEYS[1])
if holder and holder ~= ARGV[1] then return {holder, 0} end
redis.call('SET', KEYS[1], ARGV[1], 'EX', ARGV[2])
return {'', redis.call('LLEN', KEYS[2])}
"""

RELEASE = """
-- keys: claim; args: answer id
if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end
return 0
"""

GIVE_FEEDBACK = """
-- keys: record, feedback, all feedback; args: the feedback, seconds for which it is kept, its member, when it expires
if redis.call('EXISTS', KEYS[1]) == 0 then return 0 end
redis.call('SET', KEYS[2], ARGV[1], 'EX', ARGV[2])
redis.call('ZADD', KEYS[3], ARGV[4], ARGV[3])
return 1
"""

REMEMBER = """
-- keys: session; args: digest of a question in its conversation, what it was rewritten to
if redis.call('EXISTS', KEYS[1]) == 0 then return 0 end
redis.call('HSET', KEYS[1], 'rewrite_of', ARGV[1], 'rewrite', ARGV[2])
return 1
"""

START = """
-- keys: record, claim, session; args: answer id, seconds of the claim, worker or ''
-- returns status, the number of ids streamed so far and the epoch that begins, or false
local status = redis.call('HGET', KEYS[1], 'status')
if not status then return false end
if redis.call('GET', KEYS[2]) == ARGV[1] then redis.call('EXPIRE', KEYS[2], ARGV[2]) end
if status == 'queued' then
  status = 'running'
  redis.call('HSET', KEYS[1], 'status', status)
end
local epoch = '0'
if ARGV[3] ~= '' and redis.call('EXISTS', KEYS[3]) == 1 then redis.call('HSET', KEYS[3], 'worker', ARGV[3]) end
if status == 'running' then epoch = tostring(redis.call('HINCRBY', KEYS[1], 'epoch', 1)) end
return {status, redis.call('HGET', KEYS[1], 'streamed') or '0', epoch}
"""

_EPOCH = """
local function taken(epoch)
  if epoch == '' then return false end
  if tonumber(redis.call('HGET', KEYS[1], 'epoch') or '0') > tonumber(epoch) then return true end
  redis.call('HSET', KEYS[1], 'epoch', epoch)  -- Redis may have lost its last second
  return false
end
"""

WRITE = f"""
-- keys: record, events, claim; args: event, t or '', number of ids, answer id, seconds of the claim, epoch or ''
-- returns {{'written', entry id}}, {{'ahead', ids streamed}}, {{'ended'}}, {{'taken'}} or {{'missing'}}
{_EPOCH}
local status = redis.call('HGET', KEYS[1], 'status')
if not status then return {{'missing'}} end
if status == 'succeeded' or status == 'failed' or status == 'cancelled' then return {{'ended'}} end
if taken(ARGV[6]) then return {{'taken'}} end
if redis.call('GET', KEYS[3]) == ARGV[4] then redis.call('EXPIRE', KEYS[3], ARGV[5]) end
if ARGV[2] ~= '' then
  local streamed = tonumber(redis.call('HGET', KEYS[1], 'streamed') or '0')
  if streamed ~= tonumber(ARGV[2]) then return {{'ahead', tostring(streamed)}} end
  redis.call('HSET', KEYS[1], 'streamed', streamed + tonumber(ARGV[3]))
end
return {{'written', redis.call('XADD', KEYS[2], '*', 'event', ARGV[1])}}
"""

RESTART = f"""
-- the answer starts again from its beginning. keys: record, events; args: event, epoch or ''
-- returns {{'written', entry id}}, {{'ended'}}, {{'taken'}} or {{'missing'}}
{_EPOCH}
local status = redis.call('HGET', KEYS[1], 'status')
if not status then return {{'missing'}} end
if status == 'succeeded' or status == 'failed' or status == 'cancelled' then return {{'ended'}} end
if taken(ARGV[2]) then return {{'taken'}} end
redis.call('HSET', KEYS[1], 'streamed', 0)
return {{'written', redis.call('XADD', KEYS[2], '*', 'event', ARGV[1])}}
"""

FINISH = f"""
-- keys: record, events, cancel flag, session, turns, session answers, sessions, claim, session ids, session parts,
--       session texts, unfinished, tokens of the tenant's day, tenants with tokens, tokens of all
-- args: status, field, final event, pending event or '', ttl, turn or '', turns expected or '', session ttl,
--       session id, now, answer id, epoch or '', texts that the turn names as a JSON object,
--       its task, tokens to count as a JSON list of [field, number], seconds for which a day's are kept or 0, tenant,
--       tokenizer or '' (no ids to keep), bytes and parts of the turns before (-1 parts: the ids are those that the
--       turn added, and follow whatever is there), ids of prompt and answer, their parts
-- returns 'missing' (no record), 'ended' (finished before), 'taken' (another worker took it over), 'finished' or
--         'detached' (finished, but not part of the session)
{_EPOCH}
local status = redis.call('HGET', KEYS[1], 'status')
if not status then return 'missing' end
if status == 'succeeded' or status == 'failed' or status == 'cancelled' then return 'ended' end
if taken(ARGV[12]) then return 'taken' end
if ARGV[4] ~= '' then redis.call('XADD', KEYS[2], '*', 'event', ARGV[4]) end
redis.call('XADD', KEYS[2], '*', 'event', ARGV[3])
redis.call('HSET', KEYS[1], 'status', ARGV[1], ARGV[2], ARGV[3])
redis.call('EXPIRE', KEYS[1], ARGV[5])
redis.call('EXPIRE', KEYS[2], ARGV[5])
local texts_ttl = math.max(tonumber(ARGV[5]), tonumber(ARGV[8]))
redis.call('EXPIRE', KEYS[11], texts_ttl)
redis.call('DEL', KEYS[3])
redis.call('SREM', KEYS[12], ARGV[14])
for _, count in ipairs(cjson.decode(ARGV[15])) do
  redis.call('HINCRBY', KEYS[15], count[1], count[2])
  if ARGV[16] ~= '0' then
    redis.call('HINCRBY', KEYS[13], count[1], count[2])
    redis.call('EXPIRE', KEYS[13], ARGV[16])
    redis.call('SADD', KEYS[14], ARGV[17])
  end
end
local holder = redis.call('GET', KEYS[8])
if holder == ARGV[11] then redis.call('DEL', KEYS[8]) end
if ARGV[6] == '' then return 'finished' end
if ARGV[7] ~= '' then
  if redis.call('LLEN', KEYS[5]) ~= tonumber(ARGV[7]) then return 'detached' end
  if holder and holder ~= ARGV[11] then return 'detached' end  -- its claim lapsed, and another answer has the turn
end
redis.call('RPUSH', KEYS[5], ARGV[6])
local base = cjson.decode(ARGV[6]).base
if base and base ~= cjson.null then redis.call('HINCRBY', KEYS[4], 'edits', 1) end
for name, text in pairs(cjson.decode(ARGV[13])) do redis.call('HSETNX', KEYS[11], name, text) end
redis.call('EXPIRE', KEYS[11], texts_ttl)
redis.call('HSETNX', KEYS[4], 'created', ARGV[10])
redis.call('HSET', KEYS[4], 'updated', ARGV[10])
redis.call('ZADD', KEYS[7], ARGV[10], ARGV[9])
if ARGV[18] ~= '' then
  local kept, first = redis.call('STRLEN', KEYS[9]), tonumber(ARGV[20])
  local known = redis.call('HGET', KEYS[4], 'tokenizer')
  local added, follows = first < 0, kept == tonumber(ARGV[19]) and redis.call('LLEN', KEYS[10]) == first
  if (added or follows) and (known == ARGV[18] or kept == 0) then
    redis.call('APPEND', KEYS[9], added and ARGV[21] or string.sub(ARGV[21], kept + 1))
    first = math.max(first, 0)
    redis.call('HSETNX', KEYS[4], 'epoch', 1)
  else
    redis.call('SET', KEYS[9], ARGV[21])
    redis.call('DEL', KEYS[10])
    redis.call('HINCRBY', KEYS[4], 'epoch', 1)
    first = 0
  end
  for i = 22 + first, #ARGV do redis.call('RPUSH', KEYS[10], ARGV[i]) end
  redis.call('HSET', KEYS[4], 'tokenizer', ARGV[18])
end
for _, i in ipairs({{4, 5, 6, 9, 10}}) do redis.call('EXPIRE', KEYS[i], ARGV[8]) end
return 'finished'
"""

BEAT = """
-- keys: workers, info; args: name, info, seconds after which a silent worker is removed
local now = redis.call('TIME')[1]
redis.call('ZADD', KEYS[1], now, ARGV[1])
redis.call('HSET', KEYS[2], ARGV[1], ARGV[2])
for _, name in ipairs(redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', now - ARGV[3])) do
  redis.call('ZREM', KEYS[1], name)
  redis.call('HDEL', KEYS[2], name)
end
return 1
"""

HOLD = """
-- keys: running, workers; args: task, worker, seconds after which a silent worker's lease lapses
-- returns 1 once the task is this worker's, 0 while another live worker has it
local holder = redis.call('HGET', KEYS[1], ARGV[1])
if holder and holder ~= ARGV[2] and string.sub(holder, 1, 7) ~= 'resend ' then
  local heard = redis.call('ZSCORE', KEYS[2], holder)
  if heard and tonumber(heard) >= redis.call('TIME')[1] - ARGV[3] then return 0 end
end
redis.call('HSET', KEYS[1], ARGV[1], ARGV[2])
return 1
"""

RELEASE_LEASE = """
-- keys: running; args: task, holder
if redis.call('HGET', KEYS[1], ARGV[1]) == ARGV[2] then return redis.call('HDEL', KEYS[1], ARGV[1]) end
return 0
"""

RECLAIM = """
-- keys: running, workers; args: calling worker, seconds after which a silent worker's lease lapses, generate task,
--       then the tasks that the calling worker runs
-- returns the tasks that no worker runs any more; they are marked as being sent again by the calling worker, and
-- earlier writers of an answer are rejected from then on
local since = redis.call('TIME')[1] - ARGV[2]
local mine = {}
for i = 4, #ARGV do mine[ARGV[i]] = true end
local lapsed = {}
local running = redis.call('HGETALL', KEYS[1])
for i = 1, #running, 2 do
  local task, holder = running[i], running[i + 1]
  if string.sub(holder, 1, 7) == 'resend ' then holder = string.sub(holder, 8) end
  local heard = redis.call('ZSCORE', KEYS[2], holder)
  local runs = heard and tonumber(heard) >= since
  if holder == ARGV[1] then runs = mine[task] end
  if not runs then
    redis.call('HSET', KEYS[1], task, 'resend ' .. ARGV[1])
    lapsed[#lapsed + 1] = task
    local name, owner, key = string.match(task, '^(%S+) (%S+) (%S+)$')
    local record = name == ARGV[3] and 'rag:' .. owner .. ':answer:' .. key
    if record and redis.call('EXISTS', record) == 1 then
      redis.call('HINCRBY', record, 'epoch', 1)
      redis.call('HINCRBY', record, 'lost', 1)
    end
  end
end
return lapsed
"""

IDLE = """
-- keys: unfinished, running
-- returns tasks of unfinished answers that no worker runs; removes those of finished answers from the set
local idle = {}
for _, task in ipairs(redis.call('SMEMBERS', KEYS[1])) do
  local owner, key = string.match(task, '^%S+ (%S+) (%S+)$')
  local status = redis.call('HGET', 'rag:' .. owner .. ':answer:' .. key, 'status')
  if status ~= 'queued' and status ~= 'running' then redis.call('SREM', KEYS[1], task)
  elseif redis.call('HEXISTS', KEYS[2], task) == 0 then idle[#idle + 1] = task end
end
return idle
"""

ROUTE = """
-- keys: session, workers, info, queues; args: common queue, seconds of silence after which a worker gets nothing
-- returns the worker for the session's next answer, or ''
local worker = redis.call('HGET', KEYS[1], 'worker')
if not worker then return '' end
local now = redis.call('TIME')[1]
local heard = redis.call('ZSCORE', KEYS[2], worker)
if not heard or tonumber(heard) < now - ARGV[2] then return '' end
local info = cjson.decode(redis.call('HGET', KEYS[3], worker) or '{}')
if not info.places or info.running >= info.places then return '' end
local queue = ARGV[1] .. '.' .. worker
if redis.call('LLEN', queue) > 0 then return '' end
redis.call('ZADD', KEYS[4], now, queue)
return worker
"""

SHARE = """
-- keys: queues, common queue; args: the calling worker's own queue, seconds for which queues are listed
-- returns the number of messages moved; their order stays
local moved = 0
for _, queue in ipairs(redis.call('ZRANGE', KEYS[1], 0, -1)) do
  if queue ~= ARGV[1] then
    while redis.call('LMOVE', queue, KEYS[2], 'LEFT', 'RIGHT') do moved = moved + 1 end
  end
end
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', redis.call('TIME')[1] - ARGV[2])
return moved
"""


def run(client: Any, script: str, keys: Sequence[str | bytes], args: Sequence[object] = ()) -> Any:
    """Run a script on a sync client. Raises QueueUnavailable while Redis is away."""
    with unavailable():
        return client.register_script(script)(keys=list(keys), args=list(args))
