"""The client for asyncio and trio, with the methods of `sync`. `calls` describes what each method sends."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Unpack

import anyio

from rag_service.client import calls
from rag_service.client.calls import AnswerOptions, QueryOptions, Text
from rag_service.client.connection import AsyncConnection
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


class AsyncRagClient(AsyncConnection):
    """A running service. An async context manager; `await close()` it otherwise. Belongs to the event
    loop it is first used in.

    Args:
        base_url: the service's address; else RAG_URL, else that of the stack that `rag up` started on the
            data folder (RAG_DATA_DIR, else `.rag`), else http://127.0.0.1:8080.
        api_key: the key to send; else RAG_API_KEY, else the local key, to this machine alone.
        timeout: seconds of silence after which a request fails.
        retries: when a request is sent again.
        transport: httpx's transport, for tests.

    Every method raises RagError.
    """

    async def query(self, question: str, **options: Unpack[QueryOptions]) -> Answer:
        """The whole answer. It is read as a stream, so a broken connection does not lose it."""
        return await _last(self.stream(question, **options))

    def stream(self, question: str, **options: Unpack[QueryOptions]) -> AsyncGenerator[Event]:
        """Events as they come, the whole answer last. A broken stream is resumed."""
        return _typed(self.resumed(calls.query(question, options)))

    async def edit(self, answer_id: str, instruction: str, **options: Unpack[AnswerOptions]) -> Answer:
        """A new version of an answer."""
        return await _last(self.stream_edit(answer_id, instruction, **options))

    def stream_edit(self, answer_id: str, instruction: str, **options: Unpack[AnswerOptions]) -> AsyncGenerator[Event]:
        """The events of a new version of an answer; see `stream`."""
        return _typed(self.resumed(calls.edit(answer_id, instruction, options)))

    def resume(self, answer_id: str, last_event_id: str | None = None) -> AsyncGenerator[Event]:
        """An answer's events after `last_event_id`; all of them for None."""
        return _typed(self.resumed(calls.events(answer_id, last_event_id), answer_id, last_event_id))

    async def answer(self, answer_id: str, *, token_ids: bool = False, prompt: bool = False) -> Answer:
        """An answer in its current state, with its token ids and its prompt where asked for."""
        return await self.send(calls.answer(answer_id, token_ids, prompt))

    async def versions(self, answer_id: str) -> list[Version]:
        """An answer and its edits, the first version first."""
        return await self.send(calls.versions(answer_id))

    async def cancel(self, answer_id: str) -> bool:
        """Stop an answer; returns False if it had already ended."""
        return await self.send(calls.cancel(answer_id))

    async def rate(self, answer_id: str, rating: Rating, *, comment: str = "") -> FeedbackOut:
        """Rate a finished answer; it replaces earlier feedback on the same answer."""
        return await self.send(calls.rate(answer_id, rating, comment))

    async def feedback(self, answer_id: str) -> FeedbackOut:
        """The feedback on an answer. Raises NotFound if there is none."""
        return await self.send(calls.feedback(answer_id))

    async def withdraw_feedback(self, answer_id: str) -> None:
        """Withdraw the feedback on an answer. Raises NotFound if there is none."""
        await self.send(calls.withdraw_feedback(answer_id))

    async def search(
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
        return await self.send(calls.search(collection, question, top_k, mode, filter, neighbours, section))

    async def ingest(
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
            await self.create_collection(collection)
        paths, unread = calls.readable(map(Path, files))
        total = len(paths) + len(unread) + len(texts)
        ingested = Ingested(total=total, done=len(unread), failures=unread)
        for batch in calls.batches(paths, path_of=lambda path: path):
            job_id = await self.add_files(collection, batch)
            ingested = ingested.plus(await self.wait(job_id, ingested.offset(progress)))
        if texts:
            job_id = await self.add_texts(collection, texts)
            ingested = ingested.plus(await self.wait(job_id, ingested.offset(progress)))
        return ingested

    async def add_files(self, collection: str, files: Iterable[str | Path]) -> str:
        """Start to ingest files; returns the job's id."""
        paths = [Path(file) for file in files]
        return await self.send(await anyio.to_thread.run_sync(calls.add_files, collection, paths))

    async def add_texts(self, collection: str, texts: Iterable[str | Text]) -> str:
        """Start to ingest texts; returns the job's id."""
        return await self.send(calls.add_texts(collection, texts))

    async def job(self, job_id: str) -> ShownJob:
        return await self.send(calls.job(job_id))

    async def jobs(self, *, limit: int = 100) -> list[ListedJob]:
        """Ingest jobs, the latest first."""
        return await self.send(calls.jobs(limit))

    async def cancel_job(self, job_id: str) -> bool:
        """Stop an ingest; returns False if it had already ended."""
        return await self.send(calls.cancel_job(job_id))

    async def wait(self, job_id: str, progress: Callable[[int, int], None] | None = None) -> ShownJob:
        """Wait for an ingest job to end. `progress` is called with the number done and the total."""
        while True:
            job = await self.job(job_id)
            if progress is not None:
                progress(job.done, job.total)
            if job.status not in ("queued", "running"):
                return job
            await anyio.sleep(POLL_S)

    async def sessions(self, *, limit: int = 100, offset: int = 0) -> list[SessionSummary]:
        """Sessions, the latest change first."""
        return await self.send(calls.sessions(limit, offset))

    async def session(self, session_id: str) -> Session:
        """A session's finished turns, oldest first."""
        return await self.send(calls.session(session_id))

    async def erase_session(self, session_id: str) -> None:
        """Erase everything kept for a session."""
        await self.send(calls.erase_session(session_id))

    async def erase_sessions(self) -> int:
        """Erase everything kept of the key's person; returns the number of sessions."""
        return await self.send(calls.erase_sessions())

    async def api_keys(self) -> list[KeyInfo]:
        """The API keys of the tenant, oldest first. Needs the role admin."""
        return await self.send(calls.api_keys())

    async def create_key(
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
        return await self.send(calls.create_key(name, person, role, collections))

    async def revoke_key(self, key_id: str, *, own: bool = False) -> None:
        """Revoke an API key. Raises Conflict for the key that this client sends, unless `own`."""
        await self.send(calls.revoke_key(key_id, own))

    async def audit(self, *, limit: int = 100, before: str | None = None) -> AuditPage:
        """Who changed what, the newest first; `next` of the result is the `before` of the next page. Needs the role
        admin."""
        return await self.send(calls.audit(limit, before))

    async def collections(self) -> list[CollectionInfo]:
        return await self.send(calls.collections())

    async def collection(self, name: str) -> CollectionInfo:
        return await self.send(calls.collection(name))

    async def create_collection(self, name: str) -> CollectionInfo:
        """Create a collection. Raises Conflict if it exists."""
        return await self.send(calls.create_collection(name))

    async def rename_collection(self, name: str, new: str) -> CollectionInfo:
        """Rename a collection. Raises Conflict if the new name is taken, or while an ingest of it is under way."""
        return await self.send(calls.rename_collection(name, new))

    async def delete_collection(self, name: str) -> None:
        await self.send(calls.delete_collection(name))

    async def documents(self, collection: str, *, limit: int = 100, after: str = "") -> DocumentList:
        """Documents ordered by id; `next` of the result is the `after` of the next page."""
        return await self.send(calls.documents(collection, limit, after))

    async def document(self, collection: str, document_id: str) -> DocumentOut:
        """A document with its text; the offsets of citations point into it."""
        return await self.send(calls.document(collection, document_id))

    async def delete_document(self, collection: str, document_id: str) -> None:
        await self.send(calls.delete_document(collection, document_id))


async def _typed(events: AsyncGenerator[ServerEvent]) -> AsyncGenerator[Event]:
    async with contextlib.aclosing(events) as server_events:
        async for event in server_events:
            if (typed_event := typed(event)) is not None:
                yield typed_event


async def _last(events: AsyncGenerator[Event]) -> Answer:
    async for event in events:
        if isinstance(event, Done):
            return event.answer
    raise RagError("The stream ended before the answer did. Ask again.")
