"""One collection: named documents sharing one embedder and index. Ingest, search, read, delete.

Knows how store, index and embedder work together; safe to use from several threads, and beside other processes that
hold the same collection.

Next, with the candidates of a query: `fused` (`search/fusion.py`); with its passages: `questions.job`
(`rag_service/prompting/questions.py`).
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache, partial
from itertools import count
from typing import Any

from retriever.embedding.embedder import Embedder, Vectors, known_share, made
from retriever.errors import EmbedderMismatch, InvalidQuery, UnknownCollection, UnknownDocument
from retriever.lexical import bm25
from retriever.moments import Moments
from retriever.parsing.file_reader import ReadLimits
from retriever.search import fusion
from retriever.search.changed import changed
from retriever.search.fusion import Candidates, Key, Part
from retriever.search.mentions import Mention, mentions
from retriever.search.named import Title, titled
from retriever.search.reranking import Reranking
from retriever.stores.ingest import Ingest
from retriever.stores.protocol import Store
from retriever.types import (
    Chunk,
    CollectionStats,
    Document,
    DocumentInfo,
    IngestReport,
    Original,
    Passage,
    Progress,
    SearchMode,
    SearchResult,
    SourceDocument,
)


class Collection:
    """`Library.create` and `Library.collection` return one."""

    def __init__(
        self,
        store: Store,
        embedder: Embedder,
        limits: ReadLimits | None = None,
        keep_originals: bool = False,
        reindexed: Store | None = None,
        reranking: Reranking | None = None,
    ) -> None:
        """`reindexed`: the index that a reindex builds beside this one, if there is one at the time."""
        self.name = store.name
        self._embedder = embedder
        self._limits = limits or ReadLimits()
        self._store = store
        self._keep_originals = keep_originals
        self._reindexed = reindexed
        self._reranking = reranking

    def ingest(
        self,
        sources: Iterable[SourceDocument],
        *,
        progress: Progress | None = None,
        cancelled: Callable[[], bool] | None = None,
        job: str | None = None,
    ) -> IngestReport:
        """Add or replace documents; a source that is stored already and unchanged costs no embedding.

        `progress(done, total, name)` is called after each source is stored or has failed; `cancelled()` is called
        between sources, between runs of chunks and before each commit. `job` names the ingest: an ingest that runs
        again under its name resumes after its process died, and does not restore documents deleted since. Sources that
        cannot be read are in the report's failures; the rest go in. If the process is killed, each document is as it
        was before or as its source gives it. Raises UnknownCollection, CollectionBusy, EmbedderMismatch, and whatever
        the embedder raises; documents stored before that stay.
        """
        stop = cancelled or (lambda: False)
        ingest = Ingest(self._store, self._embedder, self._limits, progress, stop, job, self._keep_originals)
        report = ingest.run(sources)
        if report.added or report.replaced:
            self._store.save_index()
        return report

    def search(
        self,
        question: str,
        top_k: int = 5,
        mode: SearchMode = "hybrid",
        filter: Mapping[str, Any] | None = None,
        *,
        candidates: Sequence[str] = (),
    ) -> list[Passage]:
        """The passages of `find`."""
        return self.find(question, top_k, mode, filter, candidates=candidates).passages

    def find(
        self,
        question: str,
        top_k: int = 5,
        mode: SearchMode = "hybrid",
        filter: Mapping[str, Any] | None = None,
        *,
        candidates: Sequence[str] = (),
        language: str = "en",
    ) -> SearchResult:
        """At most `top_k` (1 to 100) passages, best first; none from an empty collection.

        In mode `hybrid` also how far the best candidate stands out, compared by words of `language` (ISO 639-1).

        `filter`: metadata keys and the exact values a passage's document must have, all of them. `candidates`:
        ids of chunks that an earlier question of the conversation retrieved, best first. Those that still exist and
        pass the filter count a little more, in every mode.
        Equal scores are ordered by document id and position. Raises InvalidQuery, UnknownCollection, EmbedderMismatch,
        RerankerUnavailable.
        """
        question = fusion.checked(question, top_k, mode, filter)
        vector = cache(partial(self._embedder.embed_query, question))
        found = self.candidates(question, vector, mode, filter, candidates)
        return fusion.fused([found], question, top_k, language, self._reranking)

    def candidates(
        self,
        question: str,
        vector: Callable[[], Vectors],
        mode: SearchMode,
        filter: Mapping[str, Any] | None,
        earlier: Sequence[str],
    ) -> Candidates:
        """The lists of one snapshot for a question that `fusion.checked` has cleaned; arguments as `find`.

        `vector()`: the question's, float32 [dimension]; not called in mode `lexical` and for an empty collection.
        """
        embedded = None
        if mode != "lexical":
            with self._store.read() as snapshot:
                facts = snapshot.facts()
                empty = snapshot.totals()[0] == 0
            if not made(self._embedder, facts.embedder):
                raise EmbedderMismatch(self.name, facts.embedder, self._embedder.name)
            if empty:
                nothing = Part([], {}, Moments())
                return Candidates(nothing, None if mode == "dense" else nothing)
            embedded = vector()
        nearest: Callable[[], list[tuple[int, float]]] = list
        hits: list[tuple[int, float]] = []
        spread = Moments()
        with self._store.search() as snapshot:
            facts = snapshot.facts()
            if embedded is not None and not made(self._embedder, facts.embedder):  # reindexed meanwhile
                raise EmbedderMismatch(self.name, facts.embedder, self._embedder.name)
            rows = snapshot.passing(filter) if filter else None
            if embedded is not None:
                if embedded.shape != (facts.dimension,):
                    stored = f"{facts.embedder} of dimension {facts.dimension}"
                    raise EmbedderMismatch(self.name, stored, f"{self._embedder.name} of dimension {len(embedded)}")
                nearest = snapshot.nearest(embedded, fusion.DEPTH, rows)
            scores = bm25.scores(snapshot, question) if mode != "dense" else None
            if scores is not None:
                hits = scores.best(fusion.DEPTH, rows)
            near = nearest()  # after BM25: the store may have looked for them beside it
            before = snapshot.rows_of(map(fusion.place, earlier), rows)
            chunks = snapshot.chunks_at({*before, *(row for row, _ in (*near, *hits))})
            cosines = dict(near)
            if embedded is not None:
                cosines |= snapshot.cosines(embedded, chunks.keys() - cosines.keys())
                spread = snapshot.moments(embedded)
        keys: dict[int, Key] = {
            row: (chunk.document_id, chunk.chunk.ordinal, self.name) for row, chunk in chunks.items()
        }

        def part(best: list[tuple[int, float]], values: Mapping[int, float], moments: Moments) -> Part:
            ranked = [(keys[row], score) for row, score in best if row in keys]
            return Part(ranked, {key: values[row] for row, key in keys.items()}, moments)

        return Candidates(
            dense=None if embedded is None else part(near, cosines, spread),
            lexical=None if scores is None else part(hits, scores.of(keys), scores.moments),
            earlier=[keys[row] for row in before if row in keys],
            chunks={keys[row]: chunk for row, chunk in chunks.items()},
            known=1.0 if embedded is None else known_share(self._embedder, question),
        )

    def mentions(
        self, words: str, together: bool, filter: Mapping[str, Any] | None = None
    ) -> tuple[list[Mention], int]:
        """The documents that mention `words`, in no order, and the number of documents; `Library.mentions` says how."""
        with self._store.read() as snapshot:
            return mentions(snapshot, self.name, words, together, filter), snapshot.counts()[0]

    def titled(self, words: str) -> list[Title]:
        """The documents whose titles have all of the words."""
        with self._store.read() as snapshot:
            return titled(snapshot, self.name, words)

    def changed(self, passages: Sequence[tuple[str, str]]) -> list[bool]:
        """For each (chunk id, text) of an earlier search whether the document no longer has the text, or is gone."""
        with self._store.read() as snapshot:
            return changed(snapshot, passages)

    def whole(self, document_id: str) -> list[Passage]:
        """All passages of a document in order, with score 1. Raises UnknownDocument."""
        with self._store.read() as snapshot:
            found = snapshot.chunks(document_id)
        if not found:
            raise UnknownDocument(document_id, self.name)
        return [
            fusion.passage(record, (document_id, record.chunk.ordinal, self.name), 1.0, rank)
            for rank, record in enumerate(found, start=1)
        ]

    def get(self, document_id: str) -> Document:
        """A document with its text. Raises UnknownDocument."""
        with self._store.read() as snapshot:
            document = snapshot.document(document_id)
        if document is None:
            raise UnknownDocument(document_id, self.name)
        return document

    def original(self, document_id: str) -> Original | None:
        """The file that a document was read from; None if none is kept. Raises UnknownDocument."""
        with self._store.read() as snapshot:
            version = snapshot.content_hash(document_id)
            if version is None:
                raise UnknownDocument(document_id, self.name)
            found = snapshot.original(document_id)
            uid = snapshot.facts().uid
        if found is None:
            return None
        document, size = found

        def pieces() -> Iterator[bytes]:
            place: tuple[str, int | None] = uid, document
            for number in count():
                with self._store.read() as snapshot:  # one a piece: a slow reader keeps no snapshot
                    if snapshot.facts().uid != place[0]:  # reindexed meanwhile: the same file in another row
                        again = snapshot.original(document_id)
                        same = again is not None and snapshot.content_hash(document_id) == version
                        place = snapshot.facts().uid, again[0] if again is not None and same else None
                    piece = None if place[1] is None else snapshot.original_piece(place[1], number)
                if piece is None:
                    return
                yield piece

        return Original(size, pieces())

    def chunks(self, document_id: str) -> list[Chunk]:
        """A document's chunks in order. Raises UnknownDocument."""
        with self._store.read() as snapshot:
            if snapshot.content_hash(document_id) is None:
                raise UnknownDocument(document_id, self.name)
            return [record.chunk for record in snapshot.chunks(document_id)]

    def documents(self, *, limit: int = 100, after: str = "") -> list[DocumentInfo]:
        """At most `limit` (1 to 1000) documents, ordered by id, starting after the id `after`."""
        if not 1 <= limit <= 1000:
            raise InvalidQuery(f"limit must be from 1 to 1000, got {limit}")
        with self._store.read() as snapshot:
            return snapshot.documents(limit, after)

    def delete(self, document_id: str) -> None:
        """Remove a document and its chunks. Raises UnknownDocument."""
        with self._store.write() as transaction:
            if not transaction.delete(document_id):
                raise UnknownDocument(document_id, self.name)
        if self._reindexed is not None:
            with contextlib.suppress(UnknownCollection), self._reindexed.write() as transaction:
                transaction.delete(document_id)

    def stats(self) -> CollectionStats:
        with self._store.read() as snapshot:
            facts = snapshot.facts()
            documents, chunks, size = snapshot.counts()
        return CollectionStats(
            self.name, documents, chunks, size, facts.embedder, facts.dimension, facts.created, facts.generation,
            facts.vector_dtype, facts.embedder_dtype,
        )  # fmt: skip

    def close(self) -> None:
        """Close what is idle, such as database connections; the collection stays usable."""
        self._store.close()
        if self._reindexed is not None:
            self._reindexed.close()
