"""The rows that passed the last filters, kept while the collection does not change. Knows no SQL.

A conversation, a team or a tenant asks with the same filter again and again, and reading all rows that pass takes as
long as several searches where most of a large collection passes.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Any

from retriever.stores import filters
from retriever.stores.canonical import canonical
from retriever.stores.protocol import Rows
from retriever.stores.store import CollectionFacts

MOST = 16
"""Filters whose rows are kept."""


class PassingRows:
    """Safe to use from several threads."""

    def __init__(self) -> None:
        self._rows: OrderedDict[tuple[str, int, str], Rows] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, facts: CollectionFacts, where: Mapping[str, Any], read: Callable[[Mapping[str, Any]], Rows]) -> Rows:
        """The rows that pass `where` in the state that `facts` names; `read` finds them. Raises InvalidQuery."""
        filters.checked(where)
        key = (facts.uid, facts.generation, canonical(dict(where)))
        with self._lock:
            rows = self._rows.get(key)
        if rows is None:
            rows = read(where)
            rows.flags.writeable = False
        with self._lock:
            self._rows[key] = rows
            self._rows.move_to_end(key)
            for other in [one for one in self._rows if one[:2] != key[:2]]:  # of another state
                del self._rows[other]
            while len(self._rows) > MOST:
                self._rows.popitem(last=False)
        return rows
