"""KvStore: the rows that finished answers left behind, for the next turns of their sessions.

Entries belong to an owner and a session, and no tenant's rows are ever matched against another's prompts. A session's
entry is taken out while an answer grows on it and comes back longer. A prompt whose session has nothing here begins on
a copy of the tenant's entry that shares most with it: at least the system prompt, of which a copy of its own stays
here, and all of a conversation that a client sends again and again without naming its session.

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
"""Tokens below which another session's rows are not worth their copy."""
ROOM_UNUSED = 0.25
"""Share of a cache that may lie unused before it is made to fit."""


_ANSWER = "answer:"
_REWRITE = "rewrite:"


def answer_rows(answer_id: str) -> str:
    """What stands in the place of a session for an answer that has none."""
    return f"{_ANSWER}{answer_id}"


def rewrite_rows(session_id: str) -> str:
    """What stands in the place of a session for the jobs that rewrite its questions."""
    return f"{_REWRITE}{session_id}"


def session_of(session: str) -> str:
    """The session that these rows are about."""
    return session.removeprefix(_REWRITE)


def answer_of(session: str) -> str | None:
    """The answer whose rows these are, where it has no session."""
    return session.removeprefix(_ANSWER) if session.startswith(_ANSWER) else None


@dataclass(frozen=True, slots=True)
class Owner:
    """Whose rows they are.

    Attributes:
        name: as `keys.owner` has it.
        session: its id; "" for what the tenant's sessions have in common.
        shared: how many tokens of the prompt hold nothing but the service's own words (control pieces, system prompt).
        minor: its rows are kept only where there is room, and leave before all others.
    """

    name: str
    session: str
    shared: int = 0
    minor: bool = False


class KvStore:
    """The least recently used leave first.

    Args:
        most_bytes: that all entries take together at most; 0 keeps nothing.
        short: asked before an entry is kept: whether memory is so short that older ones should leave.
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
        """bytes, most_bytes, entries; and since the start: prompt tokens asked with, those reused, entries evicted."""
        return {
            "bytes": self._bytes,
            "most_bytes": self.most_bytes,
            "entries": len(self._entries),
            "prompt_tokens": self._prompt_tokens,
            "reused_tokens": self._reused_tokens,
            "evicted": self._evicted,
        }

    def owners(self) -> list[tuple[str, str]]:
        """(owner, session) of the sessions whose rows are here."""
        return [key for key in tuple(self._entries) if key[1]]

    def holds(self, owner: Owner) -> bool:
        """Whether the session's rows are here."""
        return (owner.name, owner.session) in self._entries

    def take(self, owner: Owner, ids: Sequence[int]) -> Prefix | None:
        """Rows that a prompt can begin on, for its answer alone; None where there are none worth it.

        The session's own entry leaves the store; of others a copy is made of what is shared.
        """
        asked = np.asarray(ids, dtype=np.int32)
        mine, tenant = (owner.name, owner.session), keys.tenant_of(owner.name)
        matches = [
            (prefix.common(asked), key == mine, key)
            for key, prefix in self._entries.items()
            if keys.tenant_of(key[0]) == tenant
        ]
        length, own, key = max(matches, default=(0, False, ("", "")))
        length = min(length, len(asked) - 1)
        if length < (1 if own else LEAST_SHARED):
            return None
        if own:
            return self._remove(key)
        self._entries.move_to_end(key, last=not key[1].startswith(_REWRITE))
        return self._entries[key].copy(length)

    def began(self, prompt_tokens: int, reused_tokens: int) -> None:
        """Count an answer's prompt, and how much of it was there."""
        self._prompt_tokens += prompt_tokens
        self._reused_tokens += reused_tokens

    def put(self, owner: Owner, prefix: Prefix) -> None:
        """Keep the rows of a finished answer, in place of the session's older ones."""
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
        """Forget a session's rows."""
        if (owner, session) in self._entries:
            self._remove((owner, session))

    def clear(self) -> bool:
        """Forget everything. Returns whether there was anything."""
        had = bool(self._entries)
        self._evicted += len(self._entries)
        self._entries.clear()
        self._bytes = 0
        return had

    def _covers(self, key: tuple[str, str], prefix: Prefix, shared: int) -> bool:
        known = self._entries.get(key)
        return known is not None and len(known) >= shared and known.common(prefix.ids[:shared]) == shared

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
