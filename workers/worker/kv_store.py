"""KvStore: the KV rows of finished answers, for the next turns of their sessions.

Entries belong to an owner and a session, and one tenant's rows never match another tenant's prompts. An answer takes
its session's entry out and puts it back longer. A prompt without an entry for its session begins on a copy of the
tenant's entry that shares most with it: at least the system prompt, which has an entry of its own, and at most a whole
conversation that a client sends repeatedly without a session.

Knows prefixes by their ids and bytes; knows no engine, no drafter and no Redis. Used from the scheduler's thread;
`state` may be read from any.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from workers.broker import keys

if TYPE_CHECKING:
    from decoder import Prefix

MOST_BYTES = 2 * 2**30
LEAST_SHARED = 16
"""Fewer tokens of another session's rows are not worth a copy."""
ROOM_UNUSED = 0.25
"""Share of a cache that may be unused; beyond it the cache is shrunk."""


_ANSWER = "answer:"
_REWRITE = "rewrite:"


def answer_rows(answer_id: str) -> str:
    """Stands in for the session of an answer without one."""
    return f"{_ANSWER}{answer_id}"


def rewrite_rows(session_id: str) -> str:
    """Stands in for the session of the jobs that rewrite its questions."""
    return f"{_REWRITE}{session_id}"


def session_of(session: str) -> str:
    """The session of these rows."""
    return session.removeprefix(_REWRITE)


def answer_of(session: str) -> str | None:
    """The answer of these rows, if it has no session."""
    return session.removeprefix(_ANSWER) if session.startswith(_ANSWER) else None


@dataclass(frozen=True, slots=True)
class Owner:
    """The owner of rows.

    Attributes:
        name: from `keys.owner`.
        session: its id; "" for the common beginning of the tenant's sessions.
        shared: number of tokens at the prompt's beginning that are the service's own (control pieces, system prompt).
        minor: its rows are stored only if there is room, and are evicted before all others.
        borrows: begins on a copy of its rows, and stores none.
    """

    name: str
    session: str
    shared: int = 0
    minor: bool = False
    borrows: bool = False


class KvStore:
    """Evicts the least recently used entries first.

    Args:
        most_bytes: limit for all entries together; 0 stores nothing.
        short: called before an entry is stored: whether memory is so short that older entries must be evicted.
    """

    def __init__(self, most_bytes: int = MOST_BYTES, short: Callable[[], bool] = lambda: False) -> None:
        self.most_bytes = most_bytes
        self._short = short
        self._entries: OrderedDict[tuple[str, str], Prefix] = OrderedDict()
        self._bytes = 0
        self._prompt_tokens = self._reused_tokens = self._evicted = 0

    @property
    def on(self) -> bool:
        return self.most_bytes > 0

    def state(self) -> dict[str, int]:
        """bytes, most_bytes, entries; and since the start: prompt tokens, reused tokens, evicted entries."""
        return {
            "bytes": self._bytes,
            "most_bytes": self.most_bytes,
            "entries": len(self._entries),
            "prompt_tokens": self._prompt_tokens,
            "reused_tokens": self._reused_tokens,
            "evicted": self._evicted,
        }

    def owners(self) -> list[tuple[str, str]]:
        """(owner, session) of the stored sessions."""
        return [key for key in tuple(self._entries) if key[1]]

    def take(self, owner: Owner, ids: Sequence[int]) -> Prefix | None:
        """Rows that a prompt can begin on, for its answer alone; None if there are too few.

        The session's own entry leaves the store, or is copied if it is borrowed. Of another entry the shared part is
        copied.
        """
        prompt = np.asarray(ids, dtype=np.int32)
        mine, tenant = (owner.name, owner.session), keys.tenant_of(owner.name)
        matches = [
            (prefix.common(prompt), key == mine, key)
            for key, prefix in self._entries.items()
            if keys.tenant_of(key[0]) == tenant
        ]
        length, own, key = max(matches, default=(0, False, ("", "")))
        length = min(length, len(prompt) - 1)
        if length < (1 if own else LEAST_SHARED):
            return None
        if own and not owner.borrows:
            return self._remove(key)
        self._entries.move_to_end(key, last=not key[1].startswith(_REWRITE))
        return self._entries[key].copy(length)

    def began(self, prompt_tokens: int, reused_tokens: int) -> None:
        """Count an answer's prompt, and how much of it was reused."""
        self._prompt_tokens += prompt_tokens
        self._reused_tokens += reused_tokens

    def put(self, owner: Owner, prefix: Prefix) -> None:
        """Store the rows of a finished answer in place of the session's older ones."""
        common = (keys.tenant_of(owner.name), "")
        shared = min(owner.shared, len(prefix))
        if shared >= LEAST_SHARED and not self._covers(common, prefix, shared):
            self._add(common, prefix.copy(shared))
        if len(prefix) < (1 - ROOM_UNUSED) * prefix.cache.capacity:
            prefix.cache.resize(len(prefix))
        key = (owner.name, owner.session)
        if not owner.minor:
            self._add(key, prefix)
        elif self._bytes + prefix.nbytes <= self.most_bytes and not self._short():
            self._add(key, prefix)
            self._entries.move_to_end(key, last=False)

    def drop(self, owner: str, session: str) -> None:
        """Delete a session's rows."""
        if (owner, session) in self._entries:
            self._remove((owner, session))

    def clear(self) -> bool:
        """Evict everything. Returns whether there was an entry."""
        evicted = len(self._entries)
        self._evicted += evicted
        self._entries.clear()
        self._bytes = 0
        return evicted > 0

    def _covers(self, key: tuple[str, str], prefix: Prefix, shared: int) -> bool:
        entry = self._entries.get(key)
        return entry is not None and len(entry) >= shared and entry.common(prefix.ids[:shared]) == shared

    def _add(self, key: tuple[str, str], prefix: Prefix) -> None:
        if key in self._entries:
            self._remove(key)
        size = prefix.nbytes
        if size > self.most_bytes:
            return
        while self._entries and (self._bytes + size > self.most_bytes or self._short()):
            self._remove(next(iter(self._entries)))
            self._evicted += 1
        self._entries[key] = prefix
        self._bytes += size

    def _remove(self, key: tuple[str, str]) -> Prefix:
        prefix = self._entries.pop(key)
        self._bytes -= prefix.nbytes
        return prefix
