"""Writes the keys of an archive into a Redis that has none: all of them at once, or none.

They are written under names of their own first, and get theirs in one transaction. Knows names and types; knows nothing
of what the keys are for, except that unfinished answers have to be listed.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import redis.exceptions

from rag_service.backup import redis_kinds
from rag_service.backup.errors import BackupError
from rag_service.backup.redis_entry import Entry
from rag_service.backup.redis_reading import is_unfinished, names
from workers.broker import keys
from workers.broker.app import RedisClient
from workers.broker.live_workers import ALIVE_S
from workers.errors import unavailable

STAGED = "rag-restore:"
"""What the names of keys begin with until all of them are there."""
MEMBERS = 500
"""Members of a key that one command writes."""
SENT = 2000
"""Words of the commands that are sent together, or a few more."""


def refuse_workers(client: RedisClient) -> None:
    """Raises BackupError if workers use this Redis, and QueueUnavailable while it is away."""
    with unavailable():
        now, _ = client.time()
        alive = client.zcount(keys.WORKERS, now - ALIVE_S, "+inf")
    if alive:
        raise BackupError("Workers use this Redis. Stop the service, API and workers, and restore again.")


def refuse_keys(client: RedisClient) -> None:
    """Raises BackupError if the service keeps anything in this Redis, and QueueUnavailable while it is away."""
    held = [name for name in names(client) if redis_kinds.is_carried(name)]
    if held:
        raise BackupError(
            f"Redis has {len(held)} keys of the service already, such as {min(held)}, and a restore merges nothing. "
            "Empty it, or set RAG_REDIS_URL to another one or another number of database."
        )


def stage(client: RedisClient, entries: Iterable[Entry]) -> tuple[list[str], int]:
    """Write entries beside their names. Returns the names, and how many of the entries have expired.

    What an interrupted restore left there is deleted first.

    Raises:
        QueueUnavailable: Redis is away.
        BackupError: it does not take a key.
    """
    discard(client)
    staged: list[str] = []
    unfinished: list[str] = []
    expired = 0
    commands: list[tuple[Any, ...]] = []
    for entry in entries:
        if entry.expires_ms is not None and entry.expires_ms <= 1000 * time.time():
            expired += 1
            continue
        if not redis_kinds.is_carried(entry.key):
            raise BackupError(f"The archive has the key {entry.key[:80]!r}, which no archive has; nothing was changed.")
        staged.append(entry.key)
        commands += _commands(entry, f"{STAGED}{entry.key}")
        if is_unfinished(entry) and (answer := redis_kinds.answer_of(entry.key)) is not None:
            unfinished.append(keys.answer_task(*answer))
        if sum(map(len, commands)) >= SENT:
            _send(client, commands)
            commands = []
    if unfinished:
        staged.append(keys.UNFINISHED)
        commands += [("SADD", f"{STAGED}{keys.UNFINISHED}", *part) for part in _parts(unfinished)]
    _send(client, commands)
    return staged, expired


def take_names(client: RedisClient, staged: Sequence[str]) -> None:
    """Give the keys that `stage` wrote their names, in one transaction. Raises QueueUnavailable while Redis is away."""
    with unavailable(), client.pipeline(transaction=True) as pipe:
        for name in staged:
            pipe.rename(f"{STAGED}{name}", name)
        for reply in pipe.execute(raise_on_error=False):
            if isinstance(reply, Exception) and "no such key" not in str(reply):  # it has expired since
                raise reply


def discard(client: RedisClient, named: Sequence[str] = ()) -> None:
    """Delete what `stage` wrote, and keys of these names. Raises QueueUnavailable while Redis is away."""
    for part in _parts([*_staged(client), *named]):
        with unavailable():
            client.delete(*part)


def _staged(client: RedisClient) -> set[str]:
    with unavailable():
        return set(client.scan_iter(match=f"{STAGED}*", count=1000))


def _commands(entry: Entry, name: str) -> Iterator[tuple[Any, ...]]:
    value = entry.value
    if entry.type == "string":
        yield "SET", name, value
    elif entry.type == "stream":
        for identity, fields in value:
            yield "XADD", name, identity, *fields
    else:
        command = {"hash": "HSET", "list": "RPUSH", "set": "SADD", "zset": "ZADD"}[entry.type]
        for part in _parts(value):
            if entry.type == "hash":
                yield command, name, *(one for pair in part for one in pair)
            elif entry.type == "zset":
                yield command, name, *(one for member, score in part for one in (score, member))
            else:
                yield command, name, *part
    if entry.expires_ms is not None:
        yield "PEXPIREAT", name, entry.expires_ms


def _parts(members: Sequence[Any]) -> Iterator[list[Any]]:
    for start in range(0, len(members), MEMBERS):
        yield list(members[start : start + MEMBERS])


def _send(client: RedisClient, commands: Sequence[tuple[Any, ...]]) -> None:
    if not commands:
        return
    try:
        with unavailable(), client.pipeline(transaction=False) as pipe:
            for command in commands:
                pipe.execute_command(*command)
            pipe.execute()
    except redis.exceptions.ResponseError as error:
        raise BackupError(f"Redis does not take what is in the archive ({error}); nothing was changed.") from error
