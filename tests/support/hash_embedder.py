"""Fakes for tests of this package and of those above it. Deterministic; no model, no files, no network."""

from __future__ import annotations

import hashlib
import re
import threading
from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from retriever.embedding.embedder import Vectors

_WORD = re.compile(r"\w+")


class HashEmbedder:
    """Bag of words: each word adds one fixed direction, so texts that share words are near each other.

    `calls` holds every list of document texts it embedded.
    """

    def __init__(self, dimension: int = 64, name: str = "hash") -> None:
        self.dimension = dimension
        self.name = f"{name}-{dimension}"
        self.calls: list[list[str]] = []
        self._lock = threading.Lock()

    @property
    def embedded(self) -> int:
        """How many document texts it embedded."""
        return sum(len(call) for call in self.calls)

    def embed_documents(self, texts: Sequence[str], /) -> Vectors:
        with self._lock:
            self.calls.append(list(texts))
        return np.stack([self._vector(text) for text in texts]) if texts else self._nothing()

    def embed_query(self, text: str, /) -> Vectors:
        return self._vector(text)

    def _nothing(self) -> Vectors:
        return np.zeros((0, self.dimension), dtype=np.float32)

    def _vector(self, text: str) -> Vectors:
        total = np.zeros(self.dimension, dtype=np.float64)
        for word in _WORD.findall(text.casefold()):
            total += _direction(word, self.dimension)
        length = float(np.linalg.norm(total))
        if length == 0.0:
            total[0] = length = 1.0
        return np.asarray(total / length, dtype=np.float32)


@lru_cache(maxsize=65536)
def _direction(word: str, dimension: int) -> tuple[float, ...]:
    """Coordinates in -1..1 that depend on the word alone, the same in every process."""
    digest = hashlib.shake_128(word.encode()).digest(dimension)
    return tuple(byte / 127.5 - 1.0 for byte in digest)
