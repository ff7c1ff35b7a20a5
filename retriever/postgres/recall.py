"""How widely the HNSW index of a collection is searched, so that it finds what a comparison with all chunks finds.

Measured on the collection's own vectors with noise added, since questions lie further from passages than passages from
each other: an index that finds every neighbour of a passage may miss a tenth of a question's. What was measured stands
in the index's comment, so every process searches alike.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass

import numpy as np

from retriever.embedding.embedder import Vectors

QUERIES = 24
NEIGHBOURS = 10
NOISE = 2.0
"""The length of the noise; a query's cosine with the passage that it was made of is about 0.45."""
WIDTHS = (200, 400, 700, 1000)
"""Values of `hnsw.ef_search`; the last is the most that pgvector takes."""
LEAST = 0.99
GROWN = 2
"""Times as many chunks as at the last measurement call for another."""


@dataclass(frozen=True, slots=True)
class Measured:
    """`recall` is the share of the ten nearest that the index found with `ef_search`, in a collection of `chunks`."""

    ef_search: int = 400
    recall: float = 0.0
    chunks: int = 0

    def holds(self, chunks: int) -> bool:
        """Whether it still tells of a collection that has so many chunks now."""
        return chunks < GROWN * self.chunks

    @property
    def comment(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def of_comment(cls, comment: str | None) -> Measured:
        """What a comment says; the default for another's, or none, as earlier versions left their indexes."""
        try:
            return cls(**json.loads(comment or "{}"))
        except (ValueError, TypeError):
            return cls()


Nearest = Callable[[Vectors], list[int]]
"""The rows of the ten chunks nearest to a vector."""


def measure(vectors: Vectors, chunks: int, scan: Nearest, index: Callable[[int], Nearest]) -> Measured:
    """The least width that reaches `LEAST`, or the greatest one.

    Args:
        vectors: [n, dimension] float32 of unit length, a sample of a collection of `chunks` chunks.
        scan: compares all chunks.
        index: searches the index with a given width.
    """
    noise = np.random.default_rng(0).standard_normal(vectors.shape).astype(np.float32)
    noise *= NOISE / np.linalg.norm(noise, axis=1, keepdims=True)
    queries = [query / np.linalg.norm(query) for query in vectors + noise]
    wanted = [set(scan(query)) for query in queries]
    most = sum(map(len, wanted))
    recall = 0.0
    for width in WIDTHS:
        search = index(width)
        recall = sum(len(rows.intersection(search(query))) for rows, query in zip(wanted, queries, strict=True)) / most
        if recall >= LEAST:
            break
    return Measured(width, round(recall, 4), chunks)
