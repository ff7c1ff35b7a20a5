"""The embedders of `rag bench retrieval`: one that remembers its questions, and a cheap one for large collections."""

from __future__ import annotations

import re
import zlib
from collections.abc import Sequence

import numpy as np

from retriever.embedding.embedder import Embedder, HadOtherNames, ShowsTokens, Vectors, known_share

_WORD = re.compile(r"\w+")
_SLOTS = 1 << 14


class Remembering:
    """Another embedder, whose questions are embedded once: modes share them, and times are of the search alone."""

    def __init__(self, inner: Embedder) -> None:
        self._inner = inner
        self._questions: dict[str, Vectors] = {}
        self._known: dict[str, float] = {}
        self.name = inner.name
        self.former_names = inner.former_names if isinstance(inner, HadOtherNames) else ()
        self.dimension = inner.dimension

    @property
    def most_tokens(self) -> int | None:
        return self._inner.most_tokens if isinstance(self._inner, ShowsTokens) else None

    def tokens(self, text: str, /) -> int:
        return self._inner.tokens(text) if isinstance(self._inner, ShowsTokens) else len(text.encode()) // 4

    def known(self, text: str, /) -> float:
        return self._known[text] if text in self._known else known_share(self._inner, text)

    def embed_documents(self, texts: Sequence[str], /) -> Vectors:
        return self._inner.embed_documents(texts)

    def embed_query(self, text: str, /) -> Vectors:
        if text not in self._questions:
            self._questions[text] = self._inner.embed_query(text)
            self._known[text] = known_share(self._inner, text)
        return self._questions[text]


class WordSums:
    """A text's vector is the sum of fixed random vectors of its words, the rarer ones more: no model, no weights.

    Texts that share words are near each other, so cosines spread and lie in clusters as those of a model do; a vector
    takes 50 µs. For times at sizes that a model would need hours for; it says nothing of quality.
    """

    name = "word-sums"

    def __init__(self, dimension: int = 384) -> None:
        self.dimension = dimension
        self._table = np.random.default_rng(5).standard_normal((_SLOTS, dimension)).astype(np.float32)
        self._table += 0.05 * self._table[0]  # texts have something in common, whatever their words

    def embed_documents(self, texts: Sequence[str], /) -> Vectors:
        return np.stack([self.embed_query(text) for text in texts])

    def embed_query(self, text: str, /) -> Vectors:
        words = set(_WORD.findall(text.casefold())) or {text}
        slots = [zlib.crc32(word.encode()) % _SLOTS for word in words]
        weights = np.array([min(len(word), 12) ** 2 for word in words], dtype=np.float32)
        vector = weights @ self._table[slots]
        return np.asarray(vector / np.linalg.norm(vector), dtype=np.float32)
