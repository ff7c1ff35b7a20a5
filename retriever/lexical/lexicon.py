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

    def entries_of(self, terms: Iterable[str], prefixes: Iterable[str] = ()) -> Entries:
        """The entries of all of `terms`, and of all terms that begin with one of `prefixes`; a row may come twice."""
        ...
