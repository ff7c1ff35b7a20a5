"""`reindex_collection`: a collection's index built anew from its stored texts while the old one serves.

The new index is a collection of its own under a hidden name, which takes the name of the old one in one step. Until
then it follows what changes in the old one.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from typing import Literal

from retriever.embedding.embedder import Embedder, Vectors, dtype_of
from retriever.errors import RetrieverError, UnknownCollection
from retriever.library import check_name
from retriever.moving.mirror import Mirror, Moved, own
from retriever.stores.hidden import reindexed, shown
from retriever.stores.protocol import Store, Stores
from retriever.stores.splitter import LEAST_SIZE, MOST_SIZE, Splitter
from retriever.stores.store import CollectionFacts
from retriever.types import Chunk, LoadedDocument, Progress

EMBED = 256
"""Texts that are embedded together."""


@dataclass(frozen=True, slots=True)
class ReindexReport:
    """What a reindex came to."""

    collection: str
    documents: int
    stored: int
    """That this run indexed; the others were indexed by an earlier one."""
    exchanged: bool
    """Whether the new index serves."""


def reindex_collection(
    stores: Stores,
    name: str,
    embedder: Embedder,
    *,
    vector_dtype: Literal["float16", "float32"] | None = None,
    chunk_size: int | None = None,
    exchange: bool = True,
    progress: Progress | None = None,
) -> ReindexReport:
    """Build the index of a collection anew, by `embedder`, and put it in place. A run after a kill goes on.

    Args:
        vector_dtype: in which vectors are kept; None keeps what is.
        chunk_size: UTF-8 bytes at which a chunk is full; 0 for the chunker's own; None keeps what is.
        exchange: False builds the new index and lets the old one serve; a later run puts it in place.

    Raises InvalidName, UnknownCollection, EmbedderUnavailable, ValueError for a chunk size, and RetrieverError if an
    unfinished index has other facts or the collection is replaced meanwhile.
    """
    check_name(name)
    if chunk_size and not LEAST_SIZE <= chunk_size <= MOST_SIZE:
        raise ValueError(f"the chunk size must be from {LEAST_SIZE} to {MOST_SIZE} bytes, or 0 for the default")
    if not stores.exists(name):
        raise UnknownCollection(name, [one for one in stores.names() if not one.startswith(".")])
    with closing(stores.open(name)) as old:
        with old.read() as snapshot:
            facts, documents = snapshot.facts(), snapshot.counts()[0]
        wanted = replace(
            facts,
            embedder=embedder.name,
            dimension=embedder.dimension,
            embedder_dtype=dtype_of(embedder),
            vector_dtype=vector_dtype or facts.vector_dtype,
            chunk_size=facts.chunk_size if chunk_size is None else chunk_size or None,
        )
        hidden, job = reindexed(name), f"reindex {facts.uid}"
        if _left_over(stores, hidden, job):
            stores.delete(hidden)
            if facts.kind == wanted.kind:  # an earlier run put its index in place and was killed before it tidied up
                return ReindexReport(name, documents, 0, True)
        _begin(stores, hidden, wanted)
        try:
            with closing(stores.open(hidden)) as new:
                mirror = Mirror(old, facts, new, job, _Indexing(old, new, facts, wanted, embedder), progress)
                mirror.run()
                new.save_index()
                if exchange:
                    with stores.exchanging(name) as exchanged:
                        mirror.run()  # what changed since; now nobody changes anything
                        _take_over(old, new)
                        new.close()
                        exchanged(hidden)
        except UnknownCollection:
            with suppress(RetrieverError):
                if not stores.exists(name):  # deleted meanwhile
                    stores.delete(hidden)
            raise
    if exchange:
        stores.delete(hidden)  # the old one by now
    return ReindexReport(name, mirror.total, len(mirror.stored), exchange)


def cancel_reindex(stores: Stores, name: str) -> bool:
    """Remove the unfinished index of a collection; False if there is none. Raises InvalidName."""
    check_name(name)
    return stores.delete(reindexed(name))


def _left_over(stores: Stores, hidden: str, job: str) -> bool:
    """Whether the hidden collection is not the one that an earlier run began to build, but the old one of a run that
    finished."""
    if not stores.exists(hidden):
        return False
    with closing(stores.open(hidden)) as left, left.read() as snapshot:
        return not own(snapshot, job)


def _begin(stores: Stores, hidden: str, wanted: CollectionFacts) -> None:
    """Create the new index, unless an earlier run began it. Raises RetrieverError if that one has other facts."""
    if stores.exists(hidden):
        with closing(stores.open(hidden)) as new, new.read() as snapshot:
            there, documents = snapshot.facts(), snapshot.counts()[0]
        if there.kind == wanted.kind:
            return
        if documents:
            raise RetrieverError(
                f"an unfinished index of collection {shown(hidden)!r} has the embedding model {there.embedder}, "
                f"vectors in {there.vector_dtype}, embedded in {there.embedder_dtype}, and chunk size "
                f"{there.chunk_size or 'default'}; finish it with these, or remove it with --cancel"
            )
        stores.delete(hidden)
    stores.create(
        hidden, wanted.embedder, wanted.dimension, wanted.embedder_dtype, wanted.vector_dtype, wanted.chunk_size
    )


def _take_over(old: Store, new: Store) -> None:
    """When the collection was created, its generation, and which documents the last ingest stored.

    If that ingest runs again after its process died, it finds in the new index what it stored.
    """
    with old.read() as snapshot:
        facts, records = snapshot.facts(), snapshot.stored_by_jobs()
    with new.write() as transaction:
        transaction.follow(facts)
        transaction.record_stored("", [])  # clears those of this reindex
        for job, documents in records.items():
            transaction.record_stored(job, documents)


class _Indexing:
    """Splits and embeds stored documents anew. Vectors of equal texts by the same model are kept."""

    def __init__(
        self, old: Store, new: Store, facts: CollectionFacts, wanted: CollectionFacts, embedder: Embedder
    ) -> None:
        self._embedder = embedder
        self._splitter = Splitter(embedder, wanted.chunk_size)
        same = (facts.embedder, facts.dimension, facts.embedder_dtype) == (
            wanted.embedder, wanted.dimension, wanted.embedder_dtype,
        )  # fmt: skip
        widened = facts.vector_dtype == "float16" and wanted.vector_dtype == "float32"
        self._known = (old, new) if same and not widened else (new,)
        """Collections whose vectors are those that the embedder would give."""

    def __call__(self, documents: Sequence[Moved]) -> list[Moved]:
        split = []
        texts: dict[bytes, str] = {}
        for moved in documents:
            loaded = moved.document.loaded
            # The spans of links within the site are not stored, but what was not indexed shows them
            parts = self._splitter.split(replace(loaded, navigation=_gaps(loaded, moved.document.chunks)))
            if not parts.chunks:
                parts = self._splitter.split(loaded, noise=True)
            texts.update(zip(parts.hashes, parts.texts, strict=True))
            split.append(parts)
        vectors = self._vectors(texts)
        return [
            Moved(
                replace(moved.document, chunks=parts.chunks, texts=parts.texts, hashes=parts.hashes),
                [vectors[digest] for digest in parts.hashes],
            )
            for moved, parts in zip(documents, split, strict=True)
        ]

    def _vectors(self, texts: dict[bytes, str]) -> dict[bytes, Vectors]:
        vectors: dict[bytes, Vectors] = {}
        for store in self._known:
            with store.read() as snapshot:
                vectors.update(snapshot.vectors_by_hash(digest for digest in texts if digest not in vectors))
        missing = [digest for digest in texts if digest not in vectors]
        for first in range(0, len(missing), EMBED):
            batch = missing[first : first + EMBED]
            vectors.update(zip(batch, self._embedder.embed_documents([texts[one] for one in batch]), strict=True))
        return vectors


def _gaps(loaded: LoadedDocument, chunks: Sequence[Chunk]) -> tuple[tuple[int, int], ...]:
    """The spans of a text that are in no chunk."""
    borders = [0, *(border for part in chunks for border in (part.start, part.end)), len(loaded.text)]
    pairs = zip(borders[::2], borders[1::2], strict=True)
    return tuple((start, end) for start, end in pairs if loaded.text[start:end].strip())
