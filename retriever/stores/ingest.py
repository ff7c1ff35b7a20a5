"""Ingest: read, chunk, embed and store sources, then report.

Knows the order of the steps and what makes a document new, changed or unchanged. A limited child process reads, no
transaction is open while texts are embedded, and one transaction stores a run of documents: after a kill every document
is as it was before or as its source gives it.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import PurePath

from retriever.chunking import front_matter
from retriever.document_ids import id_of_name
from retriever.embedding.embedder import Embedder, Vectors, known_share, made
from retriever.errors import EmbedderMismatch, LoadError, UnreadableDocument
from retriever.parsing.file_reader import FileReader, ReadLimits
from retriever.parsing.formats import markdown_title, read_bytes
from retriever.parsing.text import clean
from retriever.stores import originals
from retriever.stores.canonical import canonical
from retriever.stores.protocol import Store
from retriever.stores.records import NewDocument
from retriever.stores.splitter import Splitter
from retriever.stores.store import CollectionFacts
from retriever.types import IngestFailure, IngestReport, LoadedDocument, Progress, SourceDocument

RECIPE = "5"
"""Part of every content hash: raise it when readers or chunker change, so that documents are ingested again."""
UNCHANGED_BATCH = 256
"""Unchanged documents recorded in one transaction."""
RUN_CHUNKS = 256
"""Documents are embedded and stored together until they have this many chunks."""
MAX_METADATA_BYTES = 65536
KNOWN = 0.5
"""Share of a text that an embedder knows, below which the report has a note."""

MAX_NAME = 500
"""Characters of a file's name."""

_NOT_IN_NAME = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff\ufffd]")
"""Control characters, and replacements for undecodable bytes."""


def document_id(source: SourceDocument) -> str:
    """The id of a source's document: its own `document_id`, else one made from its name, else from its text.

    Raises UnreadableDocument unless `document_id` is 1 to 200 printable characters without '/' and outer spaces, and
    neither `.` nor `..`.
    """
    own = source.document_id
    if own is not None:
        if own in (".", ".."):  # of a path, these name something else
            raise UnreadableDocument("the id must be neither '.' nor '..'; give it another one")
        if not own.isprintable() or "/" in own or own != own.strip() or not 1 <= len(own) <= 200:
            raise UnreadableDocument("the id must be 1 to 200 printable characters, without '/' and outer spaces")
        return own
    if name := _name(source):
        return id_of_name(name)
    return f"text-{_digest(clean(source.text or ''))[:16]}"


class _Cancelled(Exception):
    """Undoes a transaction."""


class _Replaced(Exception):
    """Undoes a transaction: another collection has the name now, with an index of its own."""


@dataclass
class Ingest:
    """One ingest into one collection."""

    store: Store
    embedder: Embedder
    limits: ReadLimits
    progress: Progress | None = None
    cancelled: Callable[[], bool] = lambda: False
    job: str | None = None
    """Names this ingest, so that it can resume after its process died without storing documents twice."""
    keep_originals: bool = False
    """Whether files are stored with their documents."""
    total: int = 0
    done: int = 0
    seen: set[str] = field(default_factory=set)
    stored_before: set[str] = field(default_factory=set)
    """Marks of the documents that this ingest stored before its process died."""
    to_record: list[str] = field(default_factory=list)
    """Marks of unchanged documents, still to be recorded as done."""
    waiting: list[NewDocument] = field(default_factory=list)
    added: list[str] = field(default_factory=list)
    replaced: list[str] = field(default_factory=list)
    unchanged: list[str] = field(default_factory=list)
    failures: list[IngestFailure] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)
    """Names of the documents of whose text the embedder knows less than half."""
    facts: CollectionFacts = field(init=False)
    splitter: Splitter = field(init=False)

    def run(self, sources: Iterable[SourceDocument]) -> IngestReport:
        """Ingest `sources` in order. A source that fails is reported and the rest go on."""
        self._begin()
        if self.job is not None:
            with self.store.read() as snapshot:
                self.stored_before = snapshot.stored_by(self.job)
        ordered = list(sources)
        self.total = len(ordered)
        stopped = False
        with FileReader(self.limits) as reader:
            for number, source in enumerate(ordered, start=1):
                if stopped := self.cancelled():
                    break
                name = _name(source) or source.document_id or f"document {number}"
                try:
                    prepared = self._prepare(source, reader)
                except LoadError as error:
                    self.failures.append(IngestFailure(name[:MAX_NAME], error.reason))
                    self._finished(name)
                    continue
                if prepared is None:
                    self._finished(name)
                    continue
                self.waiting.append(prepared)
                if sum(len(document.texts) for document in self.waiting) >= RUN_CHUNKS and not self._store_waiting():
                    stopped = True
                    break
        if not stopped:
            stopped = not self._store_waiting()
        self._record_unchanged()
        return IngestReport(
            tuple(self.added), tuple(self.replaced), tuple(self.unchanged), tuple(self.failures), stopped, self._notes()
        )

    def _begin(self) -> None:
        """Read what the collection expects. Raises EmbedderMismatch."""
        with self.store.read() as snapshot:
            self.facts = snapshot.facts()
        if not made(self.embedder, self.facts.embedder):
            raise EmbedderMismatch(self.store.name, self.facts.embedder, self.embedder.name)
        self.splitter = Splitter(self.embedder, self.facts.chunk_size)

    def _prepare(self, source: SourceDocument, reader: FileReader) -> NewDocument | None:
        """The source read and chunked; None if the collection has it unchanged. Raises LoadError."""
        if (source.path is None) == (source.text is None):
            raise UnreadableDocument("give exactly one of a file and a text")
        if source.path is not None:
            _check_name(source.name)
        identity = document_id(source)
        if identity in self.seen:
            raise UnreadableDocument(
                f"another document of this ingest has the id {identity!r}; give it another name or id"
            )
        if mark(identity) in self.stored_before:
            self.seen.add(identity)
            self.unchanged.append(identity)
            return None
        content_hash = self._content_hash(source)
        with self.store.read() as snapshot:
            unchanged = snapshot.content_hash(identity) == content_hash
            if unchanged and self.keep_originals and source.path is not None:
                unchanged = snapshot.original(identity) is not None
        if unchanged:
            self.seen.add(identity)
            self.unchanged.append(identity)
            self.to_record.append(mark(identity))
            if len(self.to_record) >= UNCHANGED_BATCH:
                self._record_unchanged()
            return None
        loaded = self._load(source, reader)
        if known_share(self.embedder, loaded.text) < KNOWN:
            self.unknown.append(_name(source) or identity)
        split = self.splitter.split(loaded)
        if not split.chunks:
            raise UnreadableDocument("there are no words besides front matter, comments and marks")
        self.seen.add(identity)
        metadata = {**({"date": loaded.date} if loaded.date else {}), **source.metadata}
        original = partial(originals.pieces, source.path) if self.keep_originals and source.path is not None else None
        return NewDocument(
            identity, _name(source), loaded, content_hash, metadata, split.chunks, split.texts, split.hashes, original
        )

    def _notes(self) -> tuple[str, ...]:
        if not self.unknown:
            return ()
        some = f"{self.unknown[0]!r}" + (f" and {len(self.unknown) - 1} more" if len(self.unknown) > 1 else "")
        return (
            f"The embedding model {self.embedder.name} knows little of the language of {some}: searches find such "
            "documents by their words, not by their meaning. An embedding model for their language would.",
        )

    def _content_hash(self, source: SourceDocument) -> str:
        """Digest of everything that determines the stored document."""
        try:
            metadata = canonical(dict(source.metadata))
        except (TypeError, ValueError) as error:
            raise UnreadableDocument(f"the metadata is not plain JSON: {error}") from None
        if any(not isinstance(key, str) for key in source.metadata):
            raise UnreadableDocument("the metadata's keys must be strings")
        if len(metadata) > MAX_METADATA_BYTES:
            raise UnreadableDocument(f"the metadata is larger than {MAX_METADATA_BYTES} bytes; shorten it")
        if source.path is not None:
            content = hashlib.sha256(read_bytes(source.path, self.limits.input_bytes)).hexdigest()
        else:
            content = _digest(clean(source.text or ""))
        return _digest(json.dumps([RECIPE, content, source.name, source.title, metadata]))

    def _load(self, source: SourceDocument, reader: FileReader) -> LoadedDocument:
        if source.path is not None:
            loaded = reader.read(source.path, source.name or None)
        else:
            text = clean(source.text or "")
            if not text.strip():
                raise UnreadableDocument("the text is empty")
            if len(text) > self.limits.text_chars:
                raise UnreadableDocument(f"the text is longer than {self.limits.text_chars:,} characters; split it")
            plain = PurePath(source.name).suffix.lower() in (".txt", ".text")
            title = markdown_title(text) or PurePath(source.name).stem
            date = None if plain else front_matter.date(text)
            loaded = LoadedDocument(title, text, "plain" if plain else "markdown", date=date)
        title = clean(source.title or loaded.title).strip()
        return replace(loaded, title=" ".join(title.split())[:500])

    def _store_waiting(self) -> bool:
        """Embed and store the waiting documents in one transaction; False if cancelled before that.

        If the collection has been reindexed since they were split, they are split and embedded again.
        """
        vectors = self._embed([pair for new in self.waiting for pair in zip(new.hashes, new.texts, strict=True)])
        if vectors is None:
            return False
        if not self.waiting:
            return True
        replaced: dict[str, bool] = {}
        try:
            with self.store.write() as transaction:
                if self.cancelled():  # this process has the write lock, so the decision holds
                    raise _Cancelled
                if transaction.facts().uid != self.facts.uid:
                    raise _Replaced
                before = transaction.stored_by(self.job) if self.job is not None else set()
                for new in self.waiting:
                    if mark(new.id) not in before:  # else another worker, which had the job before, stored it meanwhile
                        replaced[new.id] = transaction.put(new, [vectors[digest] for digest in new.hashes])
                if self.job is not None:
                    transaction.record_stored(self.job, [*self.to_record, *map(mark, replaced)])
                    self.to_record = []
        except _Cancelled:
            return False
        except _Replaced:
            self._begin()
            self.waiting = [self._split_again(new) for new in self.waiting]
            return self._store_waiting()
        for new in self.waiting:
            outcome = {None: self.unchanged, True: self.replaced, False: self.added}[replaced.get(new.id)]
            outcome.append(new.id)
            self._finished(new.name or new.id)
        self.waiting = []
        return True

    def _split_again(self, new: NewDocument) -> NewDocument:
        split = self.splitter.split(new.loaded)
        if not split.chunks:
            split = self.splitter.split(new.loaded, noise=True)
        return replace(new, chunks=split.chunks, texts=split.texts, hashes=split.hashes)

    def _record_unchanged(self) -> None:
        """Record unchanged documents, so that a resumed ingest does not restore those deleted meanwhile."""
        if self.to_record and self.job is not None:
            with self.store.write() as transaction:
                transaction.record_stored(self.job, self.to_record)
        self.to_record = []

    def _embed(self, pairs: Iterable[tuple[bytes, str]]) -> dict[bytes, Vectors] | None:
        """A vector for each digest, computed only for texts that the collection lacks; None if cancelled."""
        texts = dict(pairs)
        with self.store.read() as snapshot:
            vectors = snapshot.vectors_by_hash(texts)
        missing = [digest for digest in texts if digest not in vectors]
        for first in range(0, len(missing), RUN_CHUNKS):
            if self.cancelled():
                return None
            batch = missing[first : first + RUN_CHUNKS]
            vectors.update(zip(batch, self.embedder.embed_documents([texts[digest] for digest in batch]), strict=True))
        return vectors

    def _finished(self, name: str) -> None:
        self.done += 1
        if self.progress is not None:
            self.progress(self.done, self.total, name)


def mark(document_id: str) -> str:
    """What is recorded of a document that an ingest stored. It outlives the document, so it does not name it."""
    return _digest(document_id)[:32]


def _name(source: SourceDocument) -> str:
    return source.name or (str(source.path) if source.path else "")


def _check_name(name: str) -> None:
    if len(name) > MAX_NAME:
        raise UnreadableDocument(f"the name is longer than {MAX_NAME} characters; rename the file")
    if _NOT_IN_NAME.search(name):
        raise UnreadableDocument("the name contains bytes that are not UTF-8, or control characters; rename the file")


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()
