"""The tokens of a session's prompt in Redis: int32, append-only, with the segments they come from.

A session's log is its last turn's prompt and answer, in order. A turn whose prompt continues the log appends the new
part; any other turn (passages were removed from a full window, or the model changed) begins a new epoch with all of it.
An edit of an old answer leaves later turns out of its prompt; what it adds is appended as well, since the prompt of the
next question holds all turns in order.
The script that ends the answer (`lua.FINISH`) also writes the log, so log and turns always agree.

Knows ids and bytes; knows no prompts, no tokenizer beyond its hash, and no engine.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Sequence
from dataclasses import dataclass, replace

from workers.broker import keys
from workers.broker.app import RedisClient
from workers.errors import unavailable

ID_BYTES = 4
Part = tuple[str, str, int]
"""A segment: kind, key, tokens."""


@dataclass(frozen=True, slots=True)
class SessionLog:
    """A turn's prompt and answer.

    Attributes:
        tokenizer: hash of the ids' tokenizer.
        ids: of prompt and answer.
        parts: the segments that tile them.
        first: index of the first part that this turn added; -1 if there is nothing but what it added.
        epoch: how often the log was restarted; 0 before it is stored.
    """

    tokenizer: str
    ids: Sequence[int]
    parts: Sequence[Part]
    first: int = 0
    epoch: int = 0

    def arguments(self) -> list[str | int | float | bytes]:
        """For `lua.FINISH`: tokenizer, bytes and parts of the turns before, all ids, all parts."""
        before = sum(length for _, _, length in self.parts[: max(self.first, 0)])
        parts = [json.dumps(part, separators=(",", ":")) for part in self.parts]
        return [self.tokenizer, ID_BYTES * before, self.first, pack(self.ids), *parts]

    def added(self) -> SessionLog:
        """What this turn added, to be appended to a log whatever its last turn is."""
        before = sum(length for _, _, length in self.parts[: self.first])
        return replace(self, ids=self.ids[before:], parts=self.parts[self.first :], first=-1)

    def answers(self) -> dict[str, list[int]]:
        """Ids of the answers in the log, by their segments' keys."""
        answers: dict[str, list[int]] = {}
        start = 0
        for kind, key, length in self.parts:
            if kind == "answer":
                answers[key] = list(self.ids[start : start + length])
            start += length
        return answers


def pack(ids: Sequence[int]) -> bytes:
    """Ids as little-endian int32."""
    return struct.pack(f"<{len(ids)}i", *ids)


def unpack(data: bytes) -> list[int]:
    """The reverse of `pack`."""
    return list(struct.unpack(f"<{len(data) // ID_BYTES}i", data))


def read_log(client: RedisClient, tenant: str, session_id: str) -> SessionLog | None:
    """The log of a session; None if it is missing or incomplete.

    Raises:
        QueueUnavailable: Redis is away.
    """
    with unavailable():
        tokenizer, epoch = client.hmget(keys.session(tenant, session_id), "tokenizer", "epoch")
        parts = client.lrange(keys.session_parts(tenant, session_id), 0, -1)
        data = client.execute_command("GET", keys.session_ids(tenant, session_id), NEVER_DECODE=True)
    if tokenizer is None or data is None:
        return None
    log = SessionLog(tokenizer, unpack(data), [tuple(json.loads(part)) for part in parts], epoch=int(epoch or 0))
    # If a turn was appended between the reads, there are more ids than parts, never fewer.
    return log if sum(length for _, _, length in log.parts) <= len(log.ids) else None
