"""A document's text → its chunks, as a collection's embedder and chunk size have them, and the texts to embed.

Knows no store.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, lru_cache

from retriever.chunking.chunker import (
    FULL,
    MAX_BYTES,
    TARGET_BYTES,
    Measure,
    chunk,
    embedding_text,
    size_in_bytes,
    size_in_tokens,
)
from retriever.chunking.noise import worth_indexing
from retriever.embedding.embedder import Embedder, ShowsTokens
from retriever.types import Chunk, LoadedDocument

LEAST_SIZE = 100
MOST_SIZE = 20_000
"""Of a chunk, in bytes of UTF-8."""


@dataclass(frozen=True, slots=True)
class Split:
    """A document's chunks; for each the text to embed, and that text's digest."""

    chunks: list[Chunk]
    texts: list[str]
    hashes: list[bytes]


class Splitter:
    """Args:
    embedder: counts tokens, if it can.
    chunk_size: UTF-8 bytes at which a chunk is full; None for the chunker's own. With an embedder that counts
        tokens, a chunk is full earlier if the embedder would not read all of it.
    """

    def __init__(self, embedder: Embedder, chunk_size: int | None = None) -> None:
        self._embedder = embedder
        self._full = chunk_size or TARGET_BYTES
        self._most = self._full * MAX_BYTES // TARGET_BYTES

    def split(self, loaded: LoadedDocument, *, noise: bool = False) -> Split:
        """`noise`: also the chunks that are not worth indexing. Without them there may be none."""
        measure, target, fits = self._sizes
        chunks = chunk(loaded.text, loaded.kind, loaded.pages, target=target, maximum=self._most, measure=measure)
        if not noise:
            chunks = worth_indexing(loaded.text, chunks, loaded.kind, loaded.navigation)
        texts = [embedding_text(loaded.title, part, fits) for part in chunks]
        return Split(chunks, texts, [hashlib.sha256(text.encode()).digest()[:16] for text in texts])

    @cached_property
    def _sizes(self) -> tuple[Measure, int, Callable[[str], bool]]:
        """How chunks are measured, when they are full, and whether the embedder reads all of a text."""
        embedder = self._embedder
        most = embedder.most_tokens if isinstance(embedder, ShowsTokens) else None
        if most is None or not isinstance(embedder, ShowsTokens):
            return size_in_bytes, self._full, lambda _: True
        count = lru_cache(maxsize=4096)(embedder.tokens)
        full = self._full * FULL // TARGET_BYTES
        return size_in_tokens(count, most, self._most), full, lambda text: count(text) <= most
