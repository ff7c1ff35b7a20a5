"""Collections that are open: bounded, the least recently used are closed first.

Knows folders and who holds what; knows no names of collections and no tenants.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from weakref import ref

from retriever.collection import Collection

MOST_OPEN = 32
"""Collections whose index stays in memory, those in use aside."""


class Opened:
    """Safe to use from several threads. One that is in use is never closed: whoever uses it holds a reference.

    Args:
        most: collections that stay open, those in use aside.
    """

    def __init__(self, most: int = MOST_OPEN) -> None:
        self._most = most
        self._open: OrderedDict[Path, Collection] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, folder: Path, make: Callable[[], Collection]) -> Collection:
        """The collection in a folder; what `make` gives where it is not open."""
        with self._lock:
            found = self._open.get(folder)
            if found is None:
                found = self._open[folder] = make()
                self._evict()
            self._open.move_to_end(folder)
            return found

    def close(self, folder: Path) -> None:
        """Close the collection in a folder, if it is open."""
        with self._lock:
            held = self._open.pop(folder, None)
        if held is not None:
            held.close()

    def close_all(self) -> None:
        with self._lock:
            held, self._open = self._open, OrderedDict()
        for collection in held.values():
            collection.close()

    def _evict(self) -> None:
        for folder in list(self._open)[: max(0, len(self._open) - self._most)]:
            collection = self._open.pop(folder)
            collection.close()  # its idle connections; in use, it opens others
            used = ref(collection)
            del collection
            if (kept := used()) is not None:
                self._open[folder] = kept
