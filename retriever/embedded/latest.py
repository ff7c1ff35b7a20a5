"""Something read from a collection, kept while the collection does not change. Knows no SQL."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

from retriever.stores.store import CollectionFacts

T = TypeVar("T")


class Latest(Generic[T]):
    """Safe to use from several threads: each sees a whole pair of state and value."""

    def __init__(self) -> None:
        self._kept: tuple[tuple[str, int], T] | None = None

    def get(self, facts: CollectionFacts, read: Callable[[], T]) -> T:
        """What `read` gave in the state that `facts` names."""
        state, kept = (facts.uid, facts.generation), self._kept
        if kept is None or kept[0] != state:
            self._kept = kept = (state, read())
        return kept[1]
