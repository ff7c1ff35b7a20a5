"""Reads what the service has in Redis while the service goes on: every key of an archive, one after the other.

A session with all its answers, and an answer with its events, are read by one script, so each is as it was at one
moment: a turn is never there without its answer's end. The lists that name them are read after them, so none is carried
that no list names. Knows which keys belong together; knows no files.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace

from rag_service.backup import redis_kinds
from rag_service.backup.manifest import Counts
from rag_service.backup.redis_entry import Entry, parsed
from workers.broker import keys, lua
from workers.broker.app import RedisClient
from workers.errors import unavailable
from workers.ingests.ledger import JOB_TTL_S

TIMEOUT_S = 60.0
"""Seconds to wait for a reply, which may be large."""
BATCH = 50
"""Keys that one call reads, unless more belong together."""

READ = """
-- keys: those to read, of which the first is the session's answers if there are args
-- args: how the keys of the session's answers begin, then how each of them ends
-- returns the time in seconds and microseconds, then {key, type, milliseconds to live, value} of all that are there
local names = {}
for i, key in ipairs(KEYS) do names[i] = key end
if #ARGV > 0 then
  for _, id in ipairs(redis.call('SMEMBERS', KEYS[1])) do
    for i = 2, #ARGV do names[#names + 1] = ARGV[1] .. id .. ARGV[i] end
  end
end
local found = redis.call('TIME')
for _, key in ipairs(names) do
  local kind = redis.call('TYPE', key)['ok']
  local value = false
  if kind == 'string' then value = redis.call('GET', key)
  elseif kind == 'hash' then value = redis.call('HGETALL', key)
  elseif kind == 'list' then value = redis.call('LRANGE', key, 0, -1)
  elseif kind == 'set' then value = redis.call('SMEMBERS', key)
  elseif kind == 'zset' then value = redis.call('ZRANGE', key, 0, -1, 'WITHSCORES')
  elseif kind == 'stream' then value = redis.call('XRANGE', key, '-', '+') end
  if kind ~= 'none' then found[#found + 1] = {key, kind, redis.call('PTTL', key), value} end
end
return found
"""


def read_all(client: RedisClient) -> Iterator[Entry]:
    """Every key that is carried, once.

    Jobs that wait or run are left out: their folders say what is to be done, and a worker enters them again.

    Args:
        client: from `make_redis`, with replies in bytes.

    Raises:
        QueueUnavailable: Redis is away.
        BackupError: a key has a type that the service does not use.
    """
    seen: set[str] = set()
    first = names(client)
    then = names(client)  # a session is as old as its first answer, so it is in this list if the answer is in that one
    sessions = _by(redis_kinds.session_of, then)
    for (owner, session_id), found in sessions.items():
        answers = keys.answer(owner, "")
        ends = [name.removeprefix(answers) for name in _of_answer(owner, "")]
        yield from _new(_read(client, _union(_of_session(owner, session_id), found), [answers, *ends]), seen)
    for (owner, answer_id), found in _by(redis_kinds.answer_of, first).items():
        known = [] if keys.answer(owner, answer_id) in seen else _of_answer(owner, answer_id)
        yield from _new(_read(client, _union(known, (name for name in found if name not in seen))), seen)
    rest = {name for name in first if redis_kinds.answer_of(name) is None and redis_kinds.session_of(name) is None}
    rest |= {keys.sessions(owner) for owner, _ in sessions}
    ordered = sorted(name for name in rest if redis_kinds.is_carried(name))
    for start in range(0, len(ordered), BATCH):
        yield from _new(_read(client, ordered[start : start + BATCH]), seen)


def count(entry: Entry, counts: Counts) -> None:
    """Add a key to the counts of an archive."""
    counts.redis_keys += 1
    counts.sessions += redis_kinds.is_session(entry.key)
    counts.answers += redis_kinds.is_answer(entry.key)
    counts.unfinished_answers += is_unfinished(entry)
    counts.jobs += redis_kinds.is_job(entry.key)
    if entry.key == keys.API_KEYS:
        counts.api_keys = len(entry.value)


def tenants_of(entry: Entry) -> set[str]:
    """The tenants that a key tells of: those of the API keys, and the one whose key it is."""
    if entry.key == keys.API_KEYS:
        return {str(json.loads(record)["tenant"]) for record in entry.fields.values()}
    if entry.key in (keys.USAGE_TENANTS, keys.AUDIT_TENANTS):
        return {member.decode("utf-8", "replace") for member in entry.value}
    owner = redis_kinds.owner_of(entry.key)
    return set() if owner is None else {keys.tenant_of(owner)}


def is_unfinished(entry: Entry) -> bool:
    """Whether it is the record of an answer that waited or ran."""
    return redis_kinds.is_answer(entry.key) and entry.fields.get("status") in ("queued", "running")


def names(client: RedisClient) -> set[str]:
    """The names of all keys of the service. Raises QueueUnavailable while Redis is away."""
    with unavailable():
        return {_text(name) for name in client.scan_iter(match=f"{redis_kinds.BEGINNING}*", count=1000)}


def _new(entries: Iterable[Entry], seen: set[str]) -> Iterator[Entry]:
    """Those that are carried and come for the first time."""
    for entry in entries:
        if entry.key not in seen and redis_kinds.is_carried(entry.key):
            seen.add(entry.key)
            if (kept := _job(entry) if redis_kinds.is_job(entry.key) else entry) is not None:
                yield kept


def _job(entry: Entry) -> Entry | None:
    """An ingest that has ended, or was cancelled and is about to end; None for one that is still to be done."""
    fields = entry.fields
    if fields.get("status") not in ("queued", "running"):
        return entry
    if "cancel" not in fields:
        return None
    kept = [(name, value) for name, value in entry.value if name in (b"progress", b"collection", b"created")]
    ends = int(1000 * (time.time() + JOB_TTL_S))
    return replace(entry, value=[*kept, (b"status", b"cancelled")], expires_ms=ends)


def _of_session(owner: str, session_id: str) -> list[str]:
    return [
        keys.session_answers(owner, session_id),  # the script reads it for the ids
        keys.session(owner, session_id),
        keys.session_turns(owner, session_id),
        keys.session_texts(owner, session_id),
        keys.session_ids(owner, session_id),
        keys.session_parts(owner, session_id),
    ]


def _of_answer(owner: str, answer_id: str) -> list[str]:
    return [
        keys.answer(owner, answer_id),
        keys.answer_events(owner, answer_id),
        keys.answer_cancel(owner, answer_id),
        keys.versions(owner, answer_id),
    ]


def _by(whose: Callable[[str], tuple[str, str] | None], among: Iterable[str]) -> dict[tuple[str, str], list[str]]:
    """The keys of each session or answer, in order."""
    found: dict[tuple[str, str], list[str]] = {}
    for name in sorted(among):
        if (one := whose(name)) is not None:
            found.setdefault(one, []).append(name)
    return found


def _union(known: Sequence[str], found: Iterable[str]) -> list[str]:
    """The keys that are known, then those that were found beside them, such as later versions may add."""
    return list(dict.fromkeys([*known, *found]))


def _read(client: RedisClient, wanted: Sequence[str], args: Sequence[str] = ()) -> Iterator[Entry]:
    """What is there of the keys, as it is at one moment."""
    if not wanted:
        return
    encoded = [name.encode("utf-8", "surrogateescape") for name in wanted]
    seconds, microseconds, *found = lua.run(client, READ, encoded, args)
    now_ms = 1000 * int(seconds) + int(microseconds) // 1000
    for key, kind, lives_ms, value in found:
        yield parsed(_text(key), kind.decode(), None if lives_ms < 0 else now_ms + lives_ms, value)


def _text(name: bytes) -> str:
    return name.decode("utf-8", "surrogateescape")
