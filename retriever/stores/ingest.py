"""Sources in: read, chunk, embed, store; one report out.

Knows the order of the steps and what makes a document new, changed or unchanged. Reading happens in a limited child
process, embedding outside any transaction, storing in one transaction for a run of documents: a killed ingest leaves
every document as it was before or as it is given, never in between.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import PurePath

import numpy as np

from retriever.chunking.chunker import chunk, embedding_text
from retriever.embedder import Embedder, Vectors
from retriever.errors import EmbedderMismatch, LoadError, UnreadableDocument
from retriever.parsing.loaders import markdown_title, read_bytes
from retriever.parsing.loading import FileReader, ReadLimits
from retriever.parsing.text import clean
from retriever.stores import records, store
from retriever.types import Chunk, IngestFailure, IngestReport, LoadedDocument, Progress, SourceDocument

RECIPE = "3"
"""Part of every content hash: raise it when loaders or chunker change, so that documents are ingested anew."""
NOTED_AT_ONCE = 256
"""Documents found unchanged that are noted in one transaction."""
RUN_CHUNKS = 256
"""Documents are embedded and stored together until they have this many chunks."""
MAX_METADATA_BYTES = 65536

MAX_NAME = 500
"""Characters of a file's name."""

_NOT_IN_NAME = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff\ufffd]")
"""Control characters, and what stands for bytes that are no text."""
_NOT_IN_SLUG = re.compile(r"[^A-Za-z0-9._]+")


def document_id(source: SourceDocument) -> str:
    """The id a source is stored under: the one it gives, else one made from its name, else from its text.

    Raises UnreadableDocument if the given id is not 1 to 200 printable characters without '/'.
    """
    given = source.document_id
    if given is not None:
        if not given.isprintable() or "/" in given or given != given.strip() or not 1 <= len(given) <= 200:
            raise UnreadableDocument("the id must be 1 to 200 printable characters, without '/' and outer spaces")
        return given
    name = source.name or (str(source.path) if source.path else "")
    if name:
        slug = _NOT_IN_SLUG.sub("-", name)[-60:].strip("-.")
        return f"{slug}-{_digest(name)[:10]}".lstrip("-")
    return f"text-{_digest(clean(source.text or ''))[:16]}"


class _Cancelled(Exception):
    """Undoes a transaction."""


@dataclass(slots=True)
class _Prepared:
    """A new or changed document, read and chunked, to be embedded."""

    id: str
    source: SourceDocument
    loaded: LoadedDocument
    content_hash: str
    chunks: list[Chunk]
    texts: list[str]
    hashes: list[bytes]


@dataclass(slots=True)
class Ingest:
    """One ingest into one collection."""

    store: store.Store
    embedder: Embedder
    limits: ReadLimits
    progress: Progress | None = None
    cancelled: Callable[[], bool] = lambda: False
    job: str | None = None
    """Names this ingest, so that it can go on after its process died: what it stored then is not stored again."""
    total: int = 0
    done: int = 0
    seen: set[str] = field(default_factory=set)
    stored_before: set[str] = field(default_factory=set)
    """Ids of the documents that this very ingest stored before its process died."""
    to_note: list[str] = field(default_factory=list)
    """Ids of documents that were there already; noted as stored, as they are done with too."""
    waiting: list[_Prepared] = field(default_factory=list)
    added: list[str] = field(default_factory=list)
    replaced: list[str] = field(default_factory=list)
    unchanged: list[str] = field(default_factory=list)
    failures: list[IngestFailure] = field(default_factory=list)

    def run(self, sources: Iterable[SourceDocument]) -> IngestReport:
        """Ingest `sources` in order. A source that fails is reported and the rest go on."""
        self._check_embedder()
        if self.job is not None:
            with self.store.read() as connection:
                self.stored_before = records.stored_by(connection, self.job)
        every = list(sources)
        self.total = len(every)
        stopped = False
        with FileReader(self.limits) as reader:
            for number, source in enumerate(every, start=1):
                if stopped := self.cancelled():
                    break
                name = (
                    source.name
                    or (str(source.path) if source.path else "")
                    or source.document_id
                    or f"document {number}"
                )
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
                if sum(len(held.texts) for held in self.waiting) >= RUN_CHUNKS and not self._store_waiting():
                    stopped = True
                    break
        if not stopped:
            stopped = not self._store_waiting()
        self._note()
        return IngestReport(
            tuple(self.added), tuple(self.replaced), tuple(self.unchanged), tuple(self.failures), cancelled=stopped
        )

    def _check_embedder(self) -> None:
        with self.store.read() as connection:
            facts = store.facts(connection)
        if facts.embedder != self.embedder.name:
            raise EmbedderMismatch(facts.name, facts.embedder, self.embedder.name)

    def _prepare(self, source: SourceDocument, reader: FileReader) -> _Prepared | None:
        """The source read and chunked; None if the collection holds it already, the same. Raises LoadError."""
        if (source.path is None) == (source.text is None):
            raise UnreadableDocument("give either a file or a text, not both and not neither")
        if source.path is not None:
            _check_name(source.name)
        identity = document_id(source)
        if identity in self.seen:
            raise UnreadableDocument(
                f"another document of this ingest has the id {identity!r}; give it another name or id"
            )
        if identity in self.stored_before:
            self.seen.add(identity)
            self.unchanged.append(identity)
            return None
        content_hash = self._content_hash(source)
        with self.store.read() as connection:
            same = records.content_hash(connection, identity) == content_hash
        if same:
            self.seen.add(identity)
            self.unchanged.append(identity)
            self.to_note.append(identity)
            if len(self.to_note) >= NOTED_AT_ONCE:
                self._note()
            return None
        loaded = self._load(source, reader)
        chunks = chunk(loaded.text, loaded.kind, loaded.pages)
        if not chunks:
            raise UnreadableDocument("there is no text behind the front matter")
        texts = [embedding_text(loaded.title, part) for part in chunks]
        hashes = [hashlib.sha256(text.encode()).digest()[:16] for text in texts]
        self.seen.add(identity)
        return _Prepared(identity, source, loaded, content_hash, chunks, texts, hashes)

    def _content_hash(self, source: SourceDocument) -> str:
        """Digest of all that the stored document is made from."""
        try:
            metadata = records.canonical(dict(source.metadata))
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
            loaded = LoadedDocument(title, text, "plain" if plain else "markdown")
        title = clean(source.title or loaded.title).strip()
        return LoadedDocument(" ".join(title.split())[:500], loaded.text, loaded.kind, loaded.pages)

    def _store_waiting(self) -> bool:
        """Embed and store the waiting documents in one transaction; False if cancelled before that."""
        vectors = self._embed([pair for held in self.waiting for pair in zip(held.hashes, held.texts, strict=True)])
        if vectors is None:
            return False
        if self.waiting:
            replaced: dict[str, bool] = {}
            stored = False
            with contextlib.suppress(_Cancelled), self.store.write() as connection:
                if self.cancelled():  # nobody else writes from here on, so what is decided now holds
                    raise _Cancelled
                before = records.stored_by(connection, self.job) if self.job is not None else set()
                for held in self.waiting:
                    if held.id in before:  # by a worker that had the job before, meanwhile
                        continue
                    new = records.NewDocument(
                        id=held.id,
                        name=held.source.name or (str(held.source.path) if held.source.path else ""),
                        loaded=held.loaded,
                        content_hash=held.content_hash,
                        metadata=held.source.metadata,
                        chunks=held.chunks,
                        hashes=held.hashes,
                        vectors=np.stack([vectors[digest] for digest in held.hashes]),
                    )
                    replaced[held.id] = records.put(connection, new)
                if self.job is not None:
                    records.note_stored(connection, self.job, [*self.to_note, *replaced])
                    self.to_note = []
                stored = True
            if not stored:
                return False
            for held in self.waiting:
                if held.id not in replaced:
                    self.unchanged.append(held.id)
                else:
                    (self.replaced if replaced[held.id] else self.added).append(held.id)
                self._finished(held.source.name or held.id)
            self.waiting = []
        return True

    def _note(self) -> None:
        """Note documents that were there already, so that the ingest, begun again, brings none back that is deleted."""
        if self.to_note and self.job is not None:
            with self.store.write() as connection:
                records.note_stored(connection, self.job, self.to_note)
        self.to_note = []

    def _embed(self, pairs: list[tuple[bytes, str]]) -> dict[bytes, Vectors] | None:
        """A vector for each digest, computed only for texts that the collection does not hold; None if cancelled."""
        texts = dict(pairs)
        with self.store.read() as connection:
            vectors = records.vectors_by_hash(connection, texts)
        missing = [digest for digest in texts if digest not in vectors]
        for first in range(0, len(missing), RUN_CHUNKS):
            if self.cancelled():
                return None
            some = missing[first : first + RUN_CHUNKS]
            vectors.update(zip(some, self.embedder.embed_documents([texts[digest] for digest in some]), strict=True))
        return vectors

    def _finished(self, name: str) -> None:
        self.done += 1
        if self.progress is not None:
            self.progress(self.done, self.total, name)


def _check_name(name: str) -> None:
    if len(name) > MAX_NAME:
        raise UnreadableDocument(f"the name is longer than {MAX_NAME} characters; rename the file")
    if _NOT_IN_NAME.search(name):
        raise UnreadableDocument("the name holds bytes that are not UTF-8, or control characters; rename the file")


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()
