"""Brings one collection to hold the documents that another one holds, however often it is stopped and begun again.

Knows no names of collections and no files. A document that both have with the same content and time of change is done;
so what a run has stored, the next one need not store again, and what changed meanwhile is stored anew.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import count

from retriever.embedding.embedder import Vectors
from retriever.errors import CollectionMismatch, RetrieverError
from retriever.stores.ingest import mark
from retriever.stores.protocol import Snapshot, Store
from retriever.stores.records import NewDocument
from retriever.stores.store import CollectionFacts
from retriever.types import LoadedDocument, Progress

RUN_CHUNKS = 256
RUN_CHARS = 4_000_000
"""Documents are stored together until they have this many chunks or characters."""


@dataclass(frozen=True, slots=True)
class Moved:
    """A document on its way: as it is to be stored, with the numbers of each chunk's vector, float32 [dimension]."""

    document: NewDocument
    vectors: Sequence[Vectors]


Convert = Callable[[Sequence[Moved]], Sequence[Moved]]
"""What documents are to be in the other collection."""


class Mirror:
    """One run. `run` may be called again, for what changed since.

    Args:
        source: the collection that is read.
        facts: those of the source when the caller decided to mirror it.
        target: the collection that is changed. All its documents were stored under `job`.
        job: recorded with every document stored, so that a later run knows the target's documents for its own.
        convert: applied to a run of documents before they are stored.
    """

    def __init__(
        self,
        source: Store,
        facts: CollectionFacts,
        target: Store,
        job: str,
        convert: Convert = lambda documents: documents,
        progress: Progress | None = None,
    ) -> None:
        self._source = source
        self._target = target
        self._job = job
        self._convert = convert
        self._progress = progress
        self._uid = facts.uid
        self.stored: set[str] = set()
        """Ids of documents that this run stored."""
        self.removed: set[str] = set()
        """Ids of documents that this run removed."""
        self.total = 0
        """Documents of the source when it was last read."""

    def run(self) -> None:
        """Go on until a snapshot of the source has nothing that the target lacks, and lacks nothing that it has.

        Raises RetrieverError if the source is another collection by now, and CollectionMismatch if something else
        stores documents in the target.
        """
        while self._once():
            pass

    def _once(self) -> bool:
        """Whether anything was to be done."""
        with self._source.read() as snapshot:
            self._check(snapshot)
            wanted = snapshot.versions()
        with self._target.read() as snapshot:
            if not own(snapshot, self._job):
                raise CollectionMismatch(self._target.name, "has documents that this copy did not bring")
            held = snapshot.versions()
        self.total = len(wanted)
        gone = [one for one in held if one not in wanted]
        changed = [one for one, version in wanted.items() if held.get(one) != version]
        if gone:
            with self._target.write() as transaction:
                self.removed.update(one for one in gone if transaction.delete(one))
        done = self.total - len(changed)
        if self._progress is not None:
            self._progress(done, self.total, "")
        place = 0
        while place < len(changed):
            place += self._store(changed[place : place + RUN_CHUNKS])
            if self._progress is not None:
                self._progress(done + place, self.total, changed[place - 1])
        return bool(gone or changed)

    def _store(self, ids: Sequence[str]) -> int:
        """Store the first of these documents in one transaction; returns how many."""
        with self._source.read() as snapshot:  # kept meanwhile: originals are read from it piece by piece
            self._check(snapshot)
            run: list[Moved] = []
            read = chunks = chars = 0
            for identity in ids:
                read += 1
                moved = _read(snapshot, identity)
                if moved is None:  # deleted meanwhile
                    continue
                run.append(moved)
                chunks += len(moved.document.chunks)
                chars += len(moved.document.loaded.text)
                if chunks >= RUN_CHUNKS or chars >= RUN_CHARS:
                    break
            documents = self._convert(run)
            with self._target.write() as transaction:
                for moved in documents:
                    _put(partial(transaction.put, moved.document, moved.vectors), moved.document.id)
                transaction.record_stored(self._job, [mark(moved.document.id) for moved in documents])
        self.stored.update(moved.document.id for moved in documents)
        return read

    def _check(self, snapshot: Snapshot) -> None:
        if snapshot.facts().uid != self._uid:
            raise RetrieverError(f"collection {self._source.name!r} was replaced meanwhile; run the command again")


def own(target: Snapshot, job: str) -> bool:
    """Whether all documents of a collection were stored by this job."""
    return {mark(one) for one in target.versions()} <= target.stored_by(job)


def _read(snapshot: Snapshot, identity: str) -> Moved | None:
    stored = snapshot.document(identity)
    if stored is None:
        return None
    vectors = snapshot.kept_vectors(identity)
    found = snapshot.original(identity)
    document = NewDocument(
        stored.id,
        stored.name,
        LoadedDocument(stored.title, stored.text, stored.kind, stored.pages),
        stored.content_hash,
        stored.metadata,
        chunks=[record.chunk for record in snapshot.chunks(identity)],
        texts=(),
        hashes=[digest for digest, _ in vectors],
        original=None if found is None else partial(_pieces, snapshot, found[0]),
        updated=stored.updated,
    )
    return Moved(document, [vector for _, vector in vectors])


def _pieces(snapshot: Snapshot, document: int) -> Iterator[bytes]:
    for number in count():
        piece = snapshot.original_piece(document, number)
        if piece is None:
            return
        yield piece


def _put(put: Callable[[], object], identity: str) -> None:
    try:
        put()
    except UnicodeEncodeError as error:  # PostgreSQL can keep it and SQLite cannot
        raise RetrieverError(
            f"document {identity!r} has a name, or metadata, with half a character ({error.reason}), which this store "
            "cannot keep; delete the document, or ingest it again without"
        ) from error
