"""The blocking client. `calls` describes what each method sends, `connection` how it is sent."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Unpack

from rag_service.client import calls
from rag_service.client.calls import AnswerOptions, QueryOptions, Text
from rag_service.client.connection import Connection
from rag_service.client.errors import Conflict, RagError
from rag_service.client.events import Done, Event, ServerEvent, typed
from rag_service.client.ingested import Ingested
from rag_service.contract.answer import Answer, PassageOut, Version
from rag_service.contract.audit import AuditPage
from rag_service.contract.feedback import FeedbackOut, Rating
from rag_service.contract.keys import CreatedKey, KeyInfo, Role
from rag_service.contract.responses import (
    CollectionInfo,
    DocumentList,
    DocumentOut,
    ListedJob,
    Session,
    SessionSummary,
    ShownJob,
)

POLL_S = 0.2


class RagClient(Connection):
    """A running service. A context manager; `close` it otherwise. Threads may share one.

    Args:
        base_url: the service's address; else RAG_URL, else that of the stack that `rag up` started on the
            data folder (RAG_DATA_DIR, else `.rag`), else http://127.0.0.1:8080.
        api_key: the key to send; else RAG_API_KEY, else the local key, to this machine alone.
        timeout: seconds of silence after which a request fails.
        retries: when a request is sent again.
        transport: httpx's transport, for tests.

    Every method raises RagError.
    """

    def query(self, question: str, **options: Unpack[QueryOptions]) -> Answer:
        """The whole answer. It is read as a stream, so a broken connection does not lose it."""
        return _last(self.stream(question, **options))

    def stream(self, question: str, **options: Unpack[QueryOptions]) -> Generator[Event]:
        """Events as they come, the whole answer last. A broken stream is resumed."""
        return _typed(self.resumed(calls.query(question, options)))

    def edit(self, answer_id: str, instruction: str, **options: Unpack[AnswerOptions]) -> Answer:
        """A new version of an answer."""
        return _last(self.stream_edit(answer_id, instruction, **options))

    def stream_edit(self, answer_id: str, instruction: str, **options: Unpack[AnswerOptions]) -> Generator[Event]:
        """The events of a new version of an answer; see `stream`."""
        return _typed(self.resumed(calls.edit(answer_id, instruction, options)))

    def resume(self, answer_id: str, last_event_id: str | None = None) -> Generator[Event]:
        """An answer's events after `last_event_id`; all of them for None."""
        return _typed(self.resumed(calls.events(answer_id, last_event_id), answer_id, last_event_id))

    def answer(self, answer_id: str, *, token_ids: bool = False, prompt: bool = False) -> Answer:
        """An answer in its current state, with its token ids and its prompt where asked for."""
        return self.send(calls.answer(answer_id, token_ids, prompt))

    def versions(self, answer_id: str) -> list[Version]:
        """An answer and its edits, the first version first."""
        return self.send(calls.versions(answer_id))

    def cancel(self, answer_id: str) -> bool:
        """Stop an answer; returns False if it had already ended."""
        return self.send(calls.cancel(answer_id))

    def rate(self, answer_id: str, rating: Rating, *, comment: str = "") -> FeedbackOut:
        """Rate a finished answer; it replaces earlier feedback on the same answer."""
        return self.send(calls.rate(answer_id, rating, comment))

    def feedback(self, answer_id: str) -> FeedbackOut:
        """The feedback on an answer. Raises NotFound if there is none."""
        return self.send(calls.feedback(answer_id))

    def withdraw_feedback(self, answer_id: str) -> None:
        """Withdraw the feedback on an answer. Raises NotFound if there is none."""
        self.send(calls.withdraw_feedback(answer_id))

    def search(
        self,
        collection: str,
        question: str,
        *,
        top_k: int | None = None,
        mode: str = "hybrid",
        filter: Mapping[str, Any] | None = None,
        neighbours: int = 0,
        section: bool = False,
    ) -> list[PassageOut]:
        """The best passages for a question, without an answer; with the chunks or the section around them."""
        return self.send(calls.search(collection, question, top_k, mode, filter, neighbours, section))

    def ingest(
        self,
        collection: str,
        files: Iterable[str | Path] = (),
        *,
        texts: Sequence[str | Text] = (),
        progress: Callable[[int, int], None] | None = None,
    ) -> Ingested:
        """Ingest files (by their names) and texts, and wait until all are done. Creates the collection if needed.

        Files that cannot be read, here or by the service, become failures; the others are ingested.

        Args:
            progress: called with the number done and the total.
        """
        with contextlib.suppress(Conflict):
            self.create_collection(collection)
        paths, unread = calls.readable(map(Path, files))
        total = len(paths) + len(unread) + len(texts)
        ingested = Ingested(total=total, done=len(unread), failures=unread)
        for batch in calls.batches(paths, path_of=lambda path: path):
            job_id = self.add_files(collection, batch)
            ingested = ingested.plus(self.wait(job_id, ingested.offset(progress)))
        if texts:
            job_id = self.add_texts(collection, texts)
            ingested = ingested.plus(self.wait(job_id, ingested.offset(progress)))
        return ingested

    def add_files(self, collection: str, files: Iterable[str | Path]) -> str:
        """Start to ingest files; returns the job's id."""
        return self.send(calls.add_files(collection, map(Path, files)))

    def add_texts(self, collection: str, texts: Iterable[str | Text]) -> str:
        """Start to ingest texts; returns the job's id."""
        return self.send(calls.add_texts(collection, texts))

    def job(self, job_id: str) -> ShownJob:
        return self.send(calls.job(job_id))

    def jobs(self, *, limit: int = 100) -> list[ListedJob]:
        """Ingest jobs, the latest first."""
        return self.send(calls.jobs(limit))

    def cancel_job(self, job_id: str) -> bool:
        """Stop an ingest; returns False if it had already ended."""
        return self.send(calls.cancel_job(job_id))

    def wait(self, job_id: str, progress: Callable[[int, int], None] | None = None) -> ShownJob:
        """Wait for an ingest job to end. `progress` is called with the number done and the total."""
        while True:
            job = self.job(job_id)
            if progress is not None:
                progress(job.done, job.total)
            if job.status not in ("queued", "running"):
                return job
            time.sleep(POLL_S)

    def sessions(self, *, limit: int = 100, offset: int = 0) -> list[SessionSummary]:
        """Sessions, the latest change first."""
        return self.send(calls.sessions(limit, offset))

    def session(self, session_id: str) -> Session:
        """A session's finished turns, oldest first."""
        return self.send(calls.session(session_id))

    def erase_session(self, session_id: str) -> None:
        """Erase everything kept for a session."""
        self.send(calls.erase_session(session_id))

    def erase_sessions(self) -> int:
        """Erase everything kept of the key's person; returns the number of sessions."""
        return self.send(calls.erase_sessions())

    def api_keys(self) -> list[KeyInfo]:
        """The API keys of the tenant, oldest first. Needs the role admin."""
        return self.send(calls.api_keys())

    def create_key(
        self,
        name: str,
        *,
        person: str | None = None,
        role: Role = "editor",
        collections: Sequence[str] | None = None,
    ) -> CreatedKey:
        """Create an API key of the tenant; only this result has the key itself. Needs the role admin.

        Args:
            person: derived from the name if None.
            collections: the only ones it can access; None for all that the own key can.
        """
        return self.send(calls.create_key(name, person, role, collections))

    def revoke_key(self, key_id: str, *, own: bool = False) -> None:
        """Revoke an API key. Raises Conflict for the key that this client sends, unless `own`."""
        self.send(calls.revoke_key(key_id, own))

    def audit(self, *, limit: int = 100, before: str | None = None) -> AuditPage:
        """Who changed what, the newest first; `next` of the result is the `before` of the next page. Needs the role
        admin."""
        return self.send(calls.audit(limit, before))

    def collections(self) -> list[CollectionInfo]:
        return self.send(calls.collections())

    def collection(self, name: str) -> CollectionInfo:
        return self.send(calls.collection(name))

    def create_collection(self, name: str) -> CollectionInfo:
        """Create a collection. Raises Conflict if it exists."""
        return self.send(calls.create_collection(name))

    def rename_collection(self, name: str, new: str) -> CollectionInfo:
        """Rename a collection. Raises Conflict if the new name is taken, or while an ingest of it is under way."""
        return self.send(calls.rename_collection(name, new))

    def delete_collection(self, name: str) -> None:
        self.send(calls.delete_collection(name))

    def documents(self, collection: str, *, limit: int = 100, after: str = "") -> DocumentList:
        """Documents ordered by id; `next` of the result is the `after` of the next page."""
        return self.send(calls.documents(collection, limit, after))

    def document(self, collection: str, document_id: str) -> DocumentOut:
        """A document with its text; the offsets of citations point into it."""
        return self.send(calls.document(collection, document_id))

    def delete_document(self, collection: str, document_id: str) -> None:
        self.send(calls.delete_document(collection, document_id))


def _typed(events: Generator[ServerEvent]) -> Generator[Event]:
    with contextlib.closing(events) as server_events:
        for event in server_events:
            if (typed_event := typed(event)) is not None:
                yield typed_event


def _last(events: Generator[Event]) -> Answer:
    for event in events:
        if isinstance(event, Done):
            return event.answer
    raise RagError("The stream ended before the answer did. Ask again.")
