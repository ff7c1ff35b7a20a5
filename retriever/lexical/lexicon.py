"""What BM25 reads of a store: which chunks have a term, which chunks are one document, how many words there are."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

BLOCK = 8192
"""Chunk rows whose entries a store keeps together."""
ENTRY = np.dtype([("row", "<u4"), ("count", "u1"), ("length", "<u2")])
Entries = NDArray[np.void]
"""`ENTRY` [n], by row: a chunk, how often it has the term (at most 255), and its number of words (at most 65,535)."""

DOCUMENT = np.dtype([("row", "<u4"), ("length", "<u4")])
Lengths = NDArray[np.void]
"""`DOCUMENT` [n], by row: a document's first chunk, and the words of all its chunks.

A document's chunks are those from its first one on, up to the first of the next document."""


class Documents:
    """The documents of a snapshot, for BM25: how long they are, and which one each chunk belongs to.

    Attributes:
        lengths: float64 [n], the words of each document, in the order of their first chunks.
    """

    def __init__(self, stored: Lengths) -> None:
        self.lengths: NDArray[np.float64] = stored["length"].astype(np.float64)
        self._first: NDArray[np.int64] = stored["row"].astype(np.int64)
        self._places: NDArray[np.int64] = np.zeros(0, np.int64)

    def __len__(self) -> int:
        return len(self.lengths)

    def places(self, rows: int) -> NDArray[np.int64]:
        """The place in `lengths` of each of the first `rows` chunk rows' documents."""
        places = self._places
        if len(places) < rows:
            begins = np.zeros(rows, np.int64)
            begins[self._first[: np.searchsorted(self._first, rows)]] = 1
            self._places = places = np.cumsum(begins) - 1
        return places[:rows]


class Lexicon(Protocol):
    """Postings and corpus statistics of one snapshot."""

    def totals(self) -> tuple[int, int]:
        """The number of chunks in the index, and of their words."""
        ...

    def languages(self) -> list[str]:
        """The languages of the collection's documents, in order."""
        ...

    def lengths(self) -> Lengths:
        """All documents that have chunks, by row."""
        ...

    def document_lengths(self) -> Documents:
        """The same, as BM25 reads them."""
        ...

    def entries_of(self, terms: Iterable[str], prefixes: Iterable[str] = ()) -> Entries:
        """The entries of all of `terms`, and of all terms that begin with one of `prefixes`; a row may come twice."""
        ...

    def counts_of(self, terms: Iterable[str]) -> dict[str, int]:
        """How many chunks have each of `terms`; terms that none has are left out."""
        ...
