"""Response bodies of the HTTP API, as OpenAPI shows them. Those of answers are in `answer.py`.

Knows names and types; imports what the Python client may import, and nothing else.
"""

from __future__ import annotations

from typing import Any

from pydantic import Field

from rag_service.contract.answer import PassageOut
from rag_service.contract.feedback import FeedbackOut
from rag_service.contract.json_body import ResponseBody
from workers.broker.progress import IngestFailure, JobProgress, ListedJob, ShownJob

__all__ = ["IngestFailure", "JobProgress", "ListedJob", "ShownJob"]


class Turn(ResponseBody):
    answer_id: str
    base: str | None = Field(default=None, description="Of an edit: id of the version that was edited.")
    instruction: str | None = Field(default=None, description="Of an edit: its instruction.")
    question: str
    retrieval_query: str | None = Field(default=None, description="Query of the search for passages.")
    answer: str
    passages: list[PassageOut]
    created: float
    feedback: FeedbackOut | None = None


class SessionSummary(ResponseBody):
    session_id: str
    created: float
    updated: float
    turns: int = Field(description="Answers, each version that an edit made counted too.")
    questions: int = Field(default=0, description="Questions: turns without edits.")
    question: str = Field(description="The first one.")


class SessionList(ResponseBody):
    sessions: list[SessionSummary]


class SessionMemory(ResponseBody):
    """Memory of a session in Redis."""

    tokens: int = Field(description="Tokens of its prompt and last answer, stored for its next turn.")
    epoch: int = Field(description="How often these tokens were rebuilt from the start.")
    ids_bytes: int = Field(description="Bytes of these tokens and their segments.")
    turns_bytes: int = Field(description="Bytes of the texts of questions, answers and passages.")
    answers_bytes: int = Field(description="Bytes of its answers' records and events, which expire sooner.")


class Session(ResponseBody):
    session_id: str
    turns: list[Turn]
    memory: SessionMemory


class ErasedSessions(ResponseBody):
    sessions: int = Field(description="How many sessions were erased.")


class CollectionInfo(ResponseBody):
    name: str
    documents: int
    chunks: int
    bytes: int
    embedder: str = Field(description="The embedding model, with its prefixes if it has any.")
    dimension: int
    created: float
    generation: int
    vector_dtype: str = Field(
        description="Number format of the stored vectors: `float16`, or `float32` in collections of earlier versions."
    )
    embedder_dtype: str = Field(description="Number format of the embedding model where the collection was created.")


class CollectionList(ResponseBody):
    collections: list[CollectionInfo]


class DocumentInfo(ResponseBody):
    document_id: str
    name: str
    title: str
    chunks: int
    bytes: int
    content_hash: str
    metadata: dict[str, Any]
    updated: float


class DocumentOut(DocumentInfo):
    text: str


class DocumentList(ResponseBody):
    documents: list[DocumentInfo]
    next: str | None = Field(default=None, description="Value of `after` for the next page; null on the last page.")


class SearchResult(ResponseBody):
    passages: list[PassageOut]


class JobList(ResponseBody):
    jobs: list[ListedJob]


class JobAccepted(ResponseBody):
    job_id: str


class Cancelled(ResponseBody):
    cancelled: bool = Field(description="False: it had already ended.")


class ProblemOut(ResponseBody):
    """A problem document (RFC 9457). `code` is stable."""

    type: str = "about:blank"
    title: str
    status: int
    detail: str
    code: str
