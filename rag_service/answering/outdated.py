"""Which passages of earlier answers have changed since, in documents that were replaced or deleted.

Knows passages and collections; knows no prompts and no HTTP.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from retriever import StoreUnavailable
from workers.broker.messages import TurnRecord


class Documents(Protocol):
    """The part of `Library` that is needed here."""

    def changed(self, passages: Sequence[tuple[str, str, str]]) -> list[bool]: ...


def changed_passages(documents: Documents, passages: Sequence[Mapping[str, Any]]) -> list[bool]:
    """For each passage, in the form that jobs carry, whether its document no longer has its text.

    False where that cannot be told: the store is away, or the passage is of a time when they named no collection.
    """
    named = {n: one for n, one in enumerate(passages) if one.get("collection")}
    asked = [(str(one["collection"]), str(one["chunk_id"]), str(one["text"])) for one in named.values()]
    changed = [False] * len(passages)
    if named:
        with contextlib.suppress(StoreUnavailable):
            for n, gone in zip(named, documents.changed(asked), strict=True):
                changed[n] = gone
    return changed


def outdated_turns(documents: Documents, turns: Sequence[TurnRecord]) -> frozenset[int]:
    """Indexes of the turns whose answers were written from a passage that has changed since."""
    read = [(n, passage) for n, turn in enumerate(turns) for passage in turn.passages if passage.get("in_prompt", True)]
    gone = changed_passages(documents, [passage for _, passage in read])
    return frozenset(n for (n, _), one in zip(read, gone, strict=True) if one)
