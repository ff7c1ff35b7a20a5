"""The calls of the service: what to send for each, and the type of its result. Sends nothing.

Both clients are built on these, so they cannot differ in what they send.
"""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, Any, Generic, Literal, TypedDict, TypeVar
from urllib.parse import quote

from rag_service.contract.answer import Answer, PassageOut, Version, VersionList
from rag_service.contract.audit import AuditPage
from rag_service.contract.feedback import FeedbackOut
from rag_service.contract.file_names import sendable
from rag_service.contract.keys import CreatedKey, KeyInfo, KeyList, Role
from rag_service.contract.responses import (
    CollectionInfo,
    CollectionList,
    DocumentList,
    DocumentOut,
    ErasedSessions,
    IngestFailure,
    JobList,
    ListedJob,
    SearchResult,
    Session,
    SessionList,
    SessionSummary,
    ShownJob,
)

T = TypeVar("T")
F = TypeVar("F")

BATCH_FILES = 50
BATCH_BYTES = 16 * 2**20
"""Most files and bytes of one upload."""
_BLOCK_BYTES = 2**20


class AnswerOptions(TypedDict, total=False):
    """How an answer is generated: fields of POST /v1/query."""

    max_tokens: int
    temperature: float
    top_p: float
    top_k: int
    min_p: float
    repetition_penalty: float
    presence_penalty: float
    frequency_penalty: float
    logit_bias: dict[str, float]
    seed: int
    stop: str | list[str]
    exact: Literal["default", "strict", "bitwise"]
    speculation: str | dict[str, Any]
    on_conflict: Literal["wait", "reject"]


class QueryOptions(AnswerOptions, total=False):
    """The other fields of POST /v1/query."""

    collection: str
    session_id: str
    retrieval: dict[str, Any]
    prediction: str | dict[str, Any]
    abstain: Literal["off", "warn", "refuse"]


class Text(TypedDict, total=False):
    """A document as text; `text` is required."""

    id: str
    title: str
    text: str
    metadata: dict[str, Any]


@dataclass(frozen=True)
class Call(Generic[T]):
    """A request, and `parse`, which turns the JSON of the response into the result (None: there is no body)."""

    method: str
    path: str
    parse: Callable[[Any], T] = lambda body: body
    json: Any = None
    params: Mapping[str, Any] | None = None
    headers: Mapping[str, str] | None = None
    files: Sequence[Any] | None = None
    data: Mapping[str, str] | None = None
    """Fields of a form, besides its files."""

    def options(self) -> dict[str, Any]:
        """Arguments of httpx's request."""
        options = {
            "json": self.json,
            "params": self.params,
            "files": self.files,
            "data": self.data,
            "headers": self.headers,
        }
        return {name: value for name, value in options.items() if value is not None}


def query(question: str, options: Mapping[str, Any]) -> Call[Any]:
    return Call("POST", "/v1/query", json={"question": question, **options, "stream": True})


def edit(answer_id: str, instruction: str, options: Mapping[str, Any]) -> Call[Any]:
    body = {"instruction": instruction, **options, "stream": True}
    return Call("POST", f"/v1/answers/{_part(answer_id)}/edits", json=body)


def events(answer_id: str, last_event_id: str | None) -> Call[Any]:
    """The events of an answer after the one with the id `last_event_id`; all of them for None."""
    return Call("GET", f"/v1/answers/{answer_id}/events", headers={"Last-Event-ID": last_event_id or "0-0"})


def answer(answer_id: str, token_ids: bool, prompt: bool = False) -> Call[Answer]:
    params = {name: True for name, wanted in (("token_ids", token_ids), ("prompt", prompt)) if wanted} or None
    return Call("GET", f"/v1/answers/{_part(answer_id)}", Answer.model_validate, params=params)


def versions(answer_id: str) -> Call[list[Version]]:
    path = f"/v1/answers/{_part(answer_id)}/versions"
    return Call("GET", path, lambda body: VersionList.model_validate(body).versions)


def cancel(answer_id: str) -> Call[bool]:
    return Call("DELETE", f"/v1/answers/{_part(answer_id)}", lambda body: bool(body["cancelled"]))


def rate(answer_id: str, rating: str, comment: str) -> Call[FeedbackOut]:
    body = {"rating": rating, "comment": comment}
    return Call("POST", f"/v1/answers/{_part(answer_id)}/feedback", FeedbackOut.model_validate, json=body)


def feedback(answer_id: str) -> Call[FeedbackOut]:
    return Call("GET", f"/v1/answers/{_part(answer_id)}/feedback", FeedbackOut.model_validate)


def withdraw_feedback(answer_id: str) -> Call[None]:
    return Call("DELETE", f"/v1/answers/{_part(answer_id)}/feedback")


def search(
    collection: str,
    question: str,
    top_k: int | None,
    mode: str,
    filter: Mapping[str, Any] | None,
    neighbours: int = 0,
    section: bool = False,
) -> Call[list[PassageOut]]:
    body = {"question": question, "top_k": top_k, "mode": mode, "filter": filter}
    body |= {"neighbours": neighbours or None, "section": section or None}  # services of version 0.1 know neither
    path = f"/v1/collections/{_part(collection)}/search"
    json = {name: value for name, value in body.items() if value is not None}
    return Call("POST", path, lambda result: SearchResult.model_validate(result).passages, json=json)


def sessions(limit: int, offset: int) -> Call[list[SessionSummary]]:
    params = {"limit": limit, "offset": offset}
    return Call("GET", "/v1/sessions", lambda body: SessionList.model_validate(body).sessions, params=params)


def session(session_id: str) -> Call[Session]:
    return Call("GET", f"/v1/sessions/{_part(session_id)}", Session.model_validate)


def erase_session(session_id: str) -> Call[None]:
    return Call("DELETE", f"/v1/sessions/{_part(session_id)}")


def erase_sessions() -> Call[int]:
    def number(body: Any) -> int:
        return ErasedSessions.model_validate(body).sessions

    return Call("DELETE", "/v1/sessions", number, params={"all": "true"})


def collections() -> Call[list[CollectionInfo]]:
    return Call("GET", "/v1/collections", lambda body: CollectionList.model_validate(body).collections)


def collection(name: str) -> Call[CollectionInfo]:
    return Call("GET", f"/v1/collections/{_part(name)}", CollectionInfo.model_validate)


def create_collection(name: str) -> Call[CollectionInfo]:
    return Call("POST", "/v1/collections", CollectionInfo.model_validate, json={"name": name})


def rename_collection(name: str, new: str) -> Call[CollectionInfo]:
    return Call("PATCH", f"/v1/collections/{_part(name)}", CollectionInfo.model_validate, json={"name": new})


def delete_collection(name: str) -> Call[None]:
    return Call("DELETE", f"/v1/collections/{_part(name)}")


def documents(name: str, limit: int, after: str) -> Call[DocumentList]:
    path = f"/v1/collections/{_part(name)}/documents"
    return Call("GET", path, DocumentList.model_validate, params={"limit": limit, "after": after})


def document(name: str, document_id: str) -> Call[DocumentOut]:
    return Call("GET", f"/v1/collections/{_part(name)}/documents/{_part(document_id)}", DocumentOut.model_validate)


def delete_document(name: str, document_id: str) -> Call[None]:
    return Call("DELETE", f"/v1/collections/{_part(name)}/documents/{_part(document_id)}")


def add_texts(name: str, texts: Iterable[str | Text]) -> Call[str]:
    body = {"documents": [{"text": text} if isinstance(text, str) else dict(text) for text in texts]}
    return Call("POST", f"/v1/collections/{_part(name)}/documents", _job_id, json=body)


def add_files(name: str, paths: Iterable[Path]) -> Call[str]:
    files = [("files", (sendable(path.name), _bytes(path))) for path in paths]
    return Call("POST", f"/v1/collections/{_part(name)}/documents", _job_id, files=files)


def add_files_described(
    name: str, files: Iterable[tuple[str, IO[bytes]]], details: Sequence[Mapping[str, Any]]
) -> Call[str]:
    """As `add_files`, with `{id, title, metadata}` of each file, in their order; each may be left out."""
    parts = [("files", file) for file in files]
    form = {"documents": json.dumps(details)}
    return Call("POST", f"/v1/collections/{_part(name)}/documents", _job_id, files=parts, data=form)


def job(job_id: str) -> Call[ShownJob]:
    return Call("GET", f"/v1/jobs/{_part(job_id)}", ShownJob.model_validate)


def jobs(limit: int) -> Call[list[ListedJob]]:
    return Call("GET", "/v1/jobs", lambda body: JobList.model_validate(body).jobs, params={"limit": limit})


def cancel_job(job_id: str) -> Call[bool]:
    return Call("DELETE", f"/v1/jobs/{_part(job_id)}", lambda body: bool(body["cancelled"]))


def api_keys() -> Call[list[KeyInfo]]:
    return Call("GET", "/v1/keys", lambda body: KeyList.model_validate(body).keys)


def create_key(name: str, person: str | None, role: Role, collections: Sequence[str] | None) -> Call[CreatedKey]:
    limit = None if collections is None else list(collections)
    body = {"name": name, "person": person, "role": role, "collections": limit}
    return Call("POST", "/v1/keys", CreatedKey.model_validate, json=body)


def revoke_key(key_id: str, own: bool) -> Call[None]:
    return Call("DELETE", f"/v1/keys/{_part(key_id)}", params={"self": True} if own else None)


def audit(limit: int, before: str | None) -> Call[AuditPage]:
    params = {"limit": limit} | ({} if before is None else {"before": before})
    return Call("GET", "/v1/audit", AuditPage.model_validate, params=params)


def readable(paths: Iterable[Path]) -> tuple[list[Path], tuple[IngestFailure, ...]]:
    """The files that can be read, and why the others cannot be sent."""
    good: list[Path] = []
    failures: list[IngestFailure] = []
    for path in paths:
        if reason := unreadable(path):
            failures.append(IngestFailure(name=sendable(str(path))[:500], reason=reason))
        else:
            good.append(path)
    return good, tuple(failures)


def unreadable(path: Path) -> str:
    """Why a file cannot be read; "" if it can."""
    try:
        mode = path.stat().st_mode
        if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):  # opening a pipe would wait, and a device may never end
            return "this is not a regular file; save what it gives to a file and ingest that"
        path.open("rb").close()
    except (OSError, ValueError) as error:  # a name with a zero byte is a ValueError
        return f"the file cannot be read: {getattr(error, 'strerror', None) or error}"
    return ""


def contents(path: Path) -> IO[bytes]:
    """What a file holds now, to be closed: an upload has a fixed size, and a log grows or shrinks while it is sent.

    Raises OSError.
    """
    with path.open("rb") as file:
        remaining = os.fstat(file.fileno()).st_size
        copy: IO[bytes] = BytesIO() if remaining <= BATCH_BYTES else TemporaryFile()  # noqa: SIM115  # the caller closes it
        try:
            while block := file.read(min(remaining, _BLOCK_BYTES)):
                copy.write(block)
                remaining -= len(block)
            copy.seek(0)
        except BaseException:
            copy.close()
            raise
    return copy


def batches(files: Iterable[F], path_of: Callable[[F], Path]) -> Iterator[list[F]]:
    """Files in uploads of bounded size, in order. A file larger than the bound is sent alone."""
    batch: list[F] = []
    remaining = BATCH_BYTES
    for file in files:
        size = _size(path_of(file))
        if batch and (len(batch) >= BATCH_FILES or size > remaining):
            yield batch
            batch, remaining = [], BATCH_BYTES
        batch.append(file)
        remaining -= size
    if batch:
        yield batch


def _bytes(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(os.fstat(file.fileno()).st_size)


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:  # it vanished meanwhile, as reading it will say
        return 0


def _job_id(body: Any) -> str:
    return str(body["job_id"])


def _part(name: str) -> str:
    """A name as one part of a path. HTTP libraries resolve `.` and `..`, so that another thing would be named."""
    return name.replace(".", "%2E") if name in (".", "..") else quote(name, safe="")
