"""Brings the documents of a collection in step with a source: lists both, plans, uploads, removes.

Each upload replaces one document in one transaction, and removals come last. So a sync that is killed leaves documents
as they were or as their files are, and the next one goes on from there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from time import monotonic

from rag_service.client.calls import BATCH_BYTES, BATCH_FILES
from rag_service.sync.documents import Documents, Upload
from rag_service.sync.held import Held, Holding, holding
from rag_service.sync.plan import Plan, make_plan
from rag_service.sync.source import Entry, ReadFailed, Skipped, Source
from retriever.document_ids import id_of_name

RETRY_S = 3600.0
"""A file that the service could not read is sent again when it changes, or after so long: the service may change."""
Progress = Callable[[int, int], None]
"""Called with the number of files sent and ingested, and of all to send."""


@dataclass
class Outcome:
    """What a sync did."""

    plan: Plan
    failures: list[Skipped] = field(default_factory=list)
    """Files that could not be read, here or by the service; a document of an earlier content stays."""
    removed: list[str] = field(default_factory=list)
    """Paths whose documents were removed."""


class Mirror:
    """One source and one collection. Remembers digests and failures from one `plan` to the next.

    Args:
        delete_many: whether removals of more than half of the documents are as good as any.
    """

    def __init__(self, source: Source, documents: Documents, *, delete_many: bool = False) -> None:
        self._source = source
        self._documents = documents
        self._delete_many = delete_many
        self._digests: dict[Entry, str] = {}
        self._failed: dict[Entry, tuple[str, float]] = {}
        """The reason, and when it was given."""
        self._holding = Holding({}, {}, (), frozenset())

    def plan(self) -> Plan:
        """Compare. Raises SourceUnavailable, and what the collection raises."""
        listing = self._source.listing()
        self._holding = holding(self._documents.all(), self._source.name)
        current = set(listing.entries)
        self._digests = {entry: digest for entry, digest in self._digests.items() if entry in current}
        since = monotonic() - RETRY_S
        self._failed = {entry: one for entry, one in self._failed.items() if entry in current and one[1] > since}
        return make_plan(listing, self._holding, self._digest, delete_many=self._delete_many)

    def carry_out(self, plan: Plan, *, remove: bool, progress: Progress = lambda done, total: None) -> Outcome:
        """Do what a plan says; `remove` also removes documents, unless the plan refuses to."""
        outcome = Outcome(plan, failures=list(plan.failures))
        taken = set(self._holding.ids)
        total, done = len(plan.uploads), 0
        for batch in _batches(plan.uploads):
            with ExitStack() as files:
                before = done

                def advance(count: int, before: int = before) -> None:
                    progress(before + count, total)

                outcome.failures += self._put(batch, taken, files, advance)
            done += len(batch)
            progress(done, total)
        if remove and not plan.refusal:
            for document in plan.removed:
                self._documents.delete(document.document_id)
                outcome.removed.append(document.path)
        return outcome

    def _put(
        self,
        batch: Sequence[tuple[Held | None, Entry]],
        taken: set[str],
        files: ExitStack,
        progress: Callable[[int], None],
    ) -> list[Skipped]:
        """Upload some entries; returns those that did not go in."""
        failures: list[Skipped] = []
        uploads: list[Upload] = []
        entries: dict[str, Entry] = {}
        for document, entry in batch:
            if (known := self._failed.get(entry)) is not None:
                failures.append(Skipped(entry.path, known[0]))
                continue
            try:
                content = self._source.read(entry)
            except ReadFailed as failure:
                failures.append(Skipped(entry.path, str(failure)))
                continue
            files.callback(content.file.close)
            name = f"{self._source.name}/{entry.path}"
            document_id = document.document_id if document else _free_id(name, taken)
            stamp = entry.stamp if entry.settled else ""
            held = Held(document_id, entry.path, entry.size, stamp, content.sha256)
            uploads.append(Upload(document_id, name, held.metadata(self._source.name), content.file))
            entries[name] = entry
        if not uploads:
            return failures
        for name, reason in self._documents.put(uploads, progress).items():
            entry = entries[name]
            if entry.settled:
                self._failed[entry] = reason, monotonic()
            failures.append(Skipped(entry.path, reason))
        return failures

    def _digest(self, entry: Entry) -> str:
        """Raises ReadFailed."""
        if (known := self._digests.get(entry)) is not None:
            return known
        content = self._source.read(entry)
        content.file.close()
        if entry.settled:
            self._digests[entry] = content.sha256
        return content.sha256


def _free_id(name: str, taken: set[str]) -> str:
    """The id that a document of this name gets, or one like it if a renamed document has that."""
    first = id_of_name(name)
    found, number = first, 2
    while found in taken:
        found, number = f"{first}-{number}", number + 1
    taken.add(found)
    return found


def _batches(uploads: Sequence[tuple[Held | None, Entry]]) -> Iterator[list[tuple[Held | None, Entry]]]:
    """Uploads of bounded size, in order. A file larger than the bound is sent alone."""
    batch: list[tuple[Held | None, Entry]] = []
    remaining = BATCH_BYTES
    for upload in uploads:
        size = upload[1].size
        if batch and (len(batch) >= BATCH_FILES or size > remaining):
            yield batch
            batch, remaining = [], BATCH_BYTES
        batch.append(upload)
        remaining -= size
    if batch:
        yield batch
