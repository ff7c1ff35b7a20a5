"""Any number of documents from the sentences of real ones, the same for the same seed. Knows texts; stores nothing."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

import numpy as np

from rag_service.bench.retrieval.sets import RetrievalSet
from retriever import SourceDocument

_SENTENCE = re.compile(r"(?<=[.!?])\s+")
BYTES = 800
"""A document has about as many: one chunk."""
SHARES = {"tenth": 10, "half": 2}
"""Metadata that a filter may choose by: the share of the documents with the value 0 is 1 / n."""


def sentences(sets: Sequence[RetrievalSet]) -> list[str]:
    """All different sentences of the sets, in order."""
    found = (
        sentence for one in sets for document in one.documents for sentence in _SENTENCE.split(document.text.strip())
    )
    return [sentence for sentence in dict.fromkeys(found) if 20 <= len(sentence.encode()) <= BYTES]


def documents(pool: Sequence[str], count: int, first: int = 0) -> Iterator[SourceDocument]:
    """Documents number `first`, `first` + 1, …: half neighbouring sentences, half any."""
    for number in range(first, first + count):
        random = np.random.default_rng([7, number])
        start = int(random.integers(len(pool)))
        chosen: list[str] = []
        while len(" ".join(chosen).encode()) < BYTES * 0.8:
            near = len(chosen) % 2 == 0
            chosen.append(pool[(start + len(chosen)) % len(pool) if near else int(random.integers(len(pool)))])
        metadata = {name: number % share for name, share in SHARES.items()}
        metadata |= {"number": number}
        yield SourceDocument(f"n{number}.txt", None, " ".join(chosen)[: BYTES * 2], f"n{number}", None, metadata)
