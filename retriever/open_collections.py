"""The open collections: a bounded number, the least recently used are closed first.

Knows keys and references; knows no names of collections and no tenants.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from weakref import ref

from retriever.collection import Collection

MOST_OPEN = 32
"""Collections whose index stays in memory, not counting those in use."""


class OpenCollections:
    """Safe to use from several threads. A collection in use is never dropped: its user holds a reference.

    Args:
        most: collections that stay open, not counting those in use.
    """

    def __init__(self, most: int = MOST_OPEN) -> None:
        self._most = most
        self._open: OrderedDict[Hashable, Collection] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: Hashable, make: Callable[[], Collection]) -> Collection:
        """The collection of a key; `make` opens one that is not open."""
        with self._lock:
            collection = self._open.get(key)
            if collection is None:
                collection = self._open[key] = make()
                self._evict()
            self._open.move_to_end(key)
            return collection

    def close(self, key: Hashable) -> None:
        """Close the collection of a key, if it is open."""
        with self._lock:
            collection = self._open.pop(key, None)
        if collection is not None:
            collection.close()

    def close_all(self) -> None:
        with self._lock:
            collections, self._open = self._open, OrderedDict()
        for collection in collections.values():
            collection.close()

    def _evict(self) -> None:
        for key in list(self._open)[: max(0, len(self._open) - self._most)]:
            collection = self._open.pop(key)
            collection.close()  # its idle connections; a collection in use opens others
            reference = ref(collection)
            del collection
            if (in_use := reference()) is not None:
                self._open[key] = in_use
