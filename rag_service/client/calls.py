"""The service's calls: what to send for each, and what comes back. Knows paths and types; sends nothing.

Both clients are made of these, so they cannot differ in what they say.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, Literal, TypedDict, TypeVar
from urllib.parse import quote

from rag_service.contract.file_names import sendable
from rag_service.contract.schemas import (
    Answer,
    CollectionInfo,
    CollectionList,
    DocumentList,
    DocumentOut,
    IngestFailure,
    JobList,
    JobProgress,
    ListedJob,
    PassageOut,
    SearchResult,
    Session,
    SessionList,
    SessionSummary,
    Version,
    VersionList,
)

T = TypeVar("T")

BATCH_FILES = 50
BATCH_BYTES = 16 * 2**20
"""Most files and bytes of one upload; a larger file goes alone."""


class AnswerOptions(TypedDict, total=False):
    """How an answer is generated; as in POST /v1/query."""

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
    exact: Literal["default", "strict"]
    speculation: str | dict[str, Any]
    on_conflict: Literal["wait", "reject"]


class QueryOptions(AnswerOptions, total=False):
    """What a question can say besides; as in POST /v1/query."""

    collection: str
    session_id: str
    retrieval: dict[str, Any]
    prediction: str | dict[str, Any]


class Text(TypedDict, total=False):
    """A document as text; `text` must be there."""

    id: str
    title: str
    text: str
    metadata: dict[str, Any]


@dataclass(frozen=True)
class Call(Generic[T]):
    """A request, and `parse`, which makes a result of the body's JSON (None where there is no body)."""

    method: str
    path: str
    parse: Callable[[Any], T] = lambda body: body
    json: Any = None
    params: Mapping[str, Any] | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    files: Sequence[Any] | None = None

    def options(self) -> dict[str, Any]:
        """As httpx takes them."""
        given = {"json": self.json, "params": self.params, "files": self.files, "headers": dict(self.headers) or None}
        return {name: value for name, value in given.items() if value is not None}


def query(question: str, options: Mapping[str, Any]) -> Call[Any]:
    return Call("POST", "/v1/query", json={"question": question, **options, "stream": True})


def edit(answer_id: str, instruction: str, options: Mapping[str, Any]) -> Call[Any]:
    body = {"instruction": instruction, **options, "stream": True}
    return Call("POST", f"/v1/answers/{_part(answer_id)}/edits", json=body)


def answer(answer_id: str, token_ids: bool) -> Call[Answer]:
    params = {"token_ids": True} if token_ids else None
    return Call("GET", f"/v1/answers/{_part(answer_id)}", Answer.model_validate, params=params)


def versions(answer_id: str) -> Call[list[Version]]:
    path = f"/v1/answers/{_part(answer_id)}/versions"
    return Call("GET", path, lambda body: VersionList.model_validate(body).versions)


def cancel(answer_id: str) -> Call[bool]:
    return Call("DELETE", f"/v1/answers/{_part(answer_id)}", lambda body: bool(body["cancelled"]))


def search(
    collection: str, question: str, top_k: int | None, mode: str, filter: Mapping[str, Any] | None
) -> Call[list[PassageOut]]:
    body = {"question": question, "top_k": top_k, "mode": mode, "filter": filter}
    said = {name: value for name, value in body.items() if value is not None}
    path = f"/v1/collections/{_part(collection)}/search"
    return Call("POST", path, lambda found: SearchResult.model_validate(found).passages, json=said)


def sessions(limit: int, offset: int) -> Call[list[SessionSummary]]:
    params = {"limit": limit, "offset": offset}
    return Call("GET", "/v1/sessions", lambda body: SessionList.model_validate(body).sessions, params=params)


def session(session_id: str) -> Call[Session]:
    return Call("GET", f"/v1/sessions/{_part(session_id)}", Session.model_validate)


def erase_session(session_id: str) -> Call[None]:
    return Call("DELETE", f"/v1/sessions/{_part(session_id)}")


def collections() -> Call[list[CollectionInfo]]:
    return Call("GET", "/v1/collections", lambda body: CollectionList.model_validate(body).collections)


def collection(name: str) -> Call[CollectionInfo]:
    return Call("GET", f"/v1/collections/{_part(name)}", CollectionInfo.model_validate)


def create_collection(name: str) -> Call[CollectionInfo]:
    return Call("POST", "/v1/collections", CollectionInfo.model_validate, json={"name": name})


def delete_collection(name: str) -> Call[None]:
    return Call("DELETE", f"/v1/collections/{_part(name)}")


def documents(name: str, limit: int, after: str) -> Call[DocumentList]:
    path = f"/v1/collections/{_part(name)}/documents"
    return Call("GET", path, DocumentList.model_validate, params={"limit": limit, "after": after})


def document(name: str, document_id: str) -> Call[DocumentOut]:
    return Call("GET", f"/v1/collections/{_part(name)}/documents/{quote(document_id)}", DocumentOut.model_validate)


def delete_document(name: str, document_id: str) -> Call[None]:
    return Call("DELETE", f"/v1/collections/{_part(name)}/documents/{quote(document_id)}")


def add_texts(name: str, texts: Iterable[str | Text]) -> Call[str]:
    body = {"documents": [{"text": text} if isinstance(text, str) else dict(text) for text in texts]}
    return Call("POST", f"/v1/collections/{_part(name)}/documents", _job_id, json=body)


def add_files(name: str, paths: Iterable[Path]) -> Call[str]:
    files = [("files", (sendable(path.name), path.read_bytes())) for path in paths]
    return Call("POST", f"/v1/collections/{_part(name)}/documents", _job_id, files=files)


def job(job_id: str) -> Call[JobProgress]:
    return Call("GET", f"/v1/jobs/{_part(job_id)}", JobProgress.model_validate)


def jobs(limit: int) -> Call[list[ListedJob]]:
    return Call("GET", "/v1/jobs", lambda body: JobList.model_validate(body).jobs, params={"limit": limit})


def cancel_job(job_id: str) -> Call[bool]:
    return Call("DELETE", f"/v1/jobs/{_part(job_id)}", lambda body: bool(body["cancelled"]))


def readable(paths: Iterable[Path]) -> tuple[list[Path], tuple[IngestFailure, ...]]:
    """The files that are there and may be read, and why the others cannot be sent."""
    good: list[Path] = []
    failures: list[IngestFailure] = []
    for path in paths:
        try:
            path.open("rb").close()
        except (OSError, ValueError) as error:  # a name with a zero byte is a ValueError
            reason = getattr(error, "strerror", None) or str(error)
            failures.append(IngestFailure(name=sendable(str(path))[:500], reason=f"the file cannot be read: {reason}"))
        else:
            good.append(path)
    return good, tuple(failures)


def batches(paths: Iterable[Path]) -> list[list[Path]]:
    """Files in uploads of bounded size, in order."""
    made: list[list[Path]] = []
    room = 0
    for path in paths:
        size = path.stat().st_size
        if not made or len(made[-1]) >= BATCH_FILES or size > room:
            made.append([])
            room = BATCH_BYTES
        made[-1].append(path)
        room -= size
    return made


def _job_id(body: Any) -> str:
    return str(body["job_id"])


def _part(name: str) -> str:
    return quote(name, safe="")
