"""Request and response bodies of the HTTP API, as OpenAPI shows them.

Knows names, types and ranges; knows no defaults that settings decide (those are None here) and no storage.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, field_validator

from decoder.drafter_names import DrafterName
from rag_service.contract.id_patterns import COLLECTION, DocumentId, SessionId
from rag_service.contract.json_body import RequestBody, at_most
from workers.broker.messages import IngestFailure, JobProgress, JobStatus, ListedJob
from workers.broker.sampling import MOST_TOKENS, SEED_LIMIT, SamplingFields, Stop

__all__ = ["IngestFailure", "JobProgress", "ListedJob"]

Mode = Literal["hybrid", "dense", "lexical", "none"]
TokenId = Annotated[str, Field(pattern=r"^[0-9]{1,9}$")]
NOT_BLANK: dict[str, Any] = {"pattern": r"\S"}
"""Said in the JSON schema; the validator says it better."""
Filter = Annotated[dict[str, Any], Field(max_length=16), at_most(16)]
Bias = Annotated[float, Field(ge=-100.0, le=100.0)]
LogitBias = Annotated[dict[TokenId, Bias], Field(max_length=1024), at_most(1024)]


class RetrievalOptions(RequestBody):
    """How passages are found; what is left out comes from the settings."""

    top_k: int | None = Field(default=None, ge=1, le=1000, description="Most passages to retrieve.")
    mode: Mode | None = Field(default=None, description="`none` answers without passages.")
    filter: Filter | None = Field(default=None, description="Metadata names and the exact values a document must have.")
    rewrite: bool | None = Field(
        default=None,
        description="Whether a follow-up that does not stand alone is rewritten from the conversation before passages "
        "are looked for; `false` looks for its own words.",
    )


class SpeculationOptions(RequestBody):
    drafter: DrafterName = "auto"
    max_nodes: int | None = Field(default=None, ge=1, le=256, description="Most draft tokens in one step.")


class TextPart(RequestBody):
    type: Literal["text"]
    text: str


def _as_parts(content: Any) -> Any:
    if not isinstance(content, str | list):
        raise ValueError("the content of a prediction is a text, or a list of {type: text, text: …}")
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


class Prediction(RequestBody):
    """What the answer will be, or much of it, as OpenAI's API takes it."""

    type: Literal["content"]
    content: Annotated[
        list[TextPart],
        Field(max_length=256),
        BeforeValidator(_as_parts, json_schema_input_type=str | list[TextPart]),
    ]

    @property
    def text(self) -> str:
        return "".join(part.text for part in self.content)


def _as_prediction(value: Any) -> Any:
    if not isinstance(value, str | dict | Prediction):
        raise ValueError("a prediction is a text, or {type: content, content: …}")
    return {"type": "content", "content": value} if isinstance(value, str) else value


class GenerationOptions(SamplingFields, RequestBody):
    """The options of every request that generates, OpenAI's included."""

    max_tokens: int | None = Field(default=None, ge=1, le=MOST_TOKENS)
    stop: Stop = Field(default_factory=list, description="Strings that end the answer; it never contains one.")
    logit_bias: LogitBias = Field(default_factory=dict, description="Token id to an amount added to its logit.")
    stream: bool = Field(default=False, description="Answer with server-sent events.")
    speculation: DrafterName | SpeculationOptions | None = Field(
        default=None,
        description="`off`, `auto` or a drafter's name. Changes how fast an answer comes, never what it says.",
    )

    @property
    def stops(self) -> list[str]:
        return [self.stop] if isinstance(self.stop, str) else list(self.stop)


class AnswerOptions(GenerationOptions):
    """How an answer is generated; the common part of queries and edits."""

    on_conflict: Literal["wait", "reject"] = Field(
        default="wait",
        description="When the session's last answer is not finished: `wait` for it, or `reject` with 409 "
        "`session_busy` at once.",
    )
    seed: int | None = Field(default=None, ge=0, lt=SEED_LIMIT, description="Drawn when absent; always returned.")


class QueryRequest(AnswerOptions):
    question: str = Field(json_schema_extra=NOT_BLANK)
    collection: str | None = Field(default=None, description="Default: the session's, else `default`.")
    session_id: SessionId | None = Field(
        default=None, description="Continues this session; an id that is not known begins one. Default: a new session."
    )
    retrieval: RetrievalOptions = RetrievalOptions()
    prediction: (
        Annotated[Prediction, BeforeValidator(_as_prediction, json_schema_input_type=str | Prediction)] | None
    ) = Field(
        default=None,
        description="What the answer will be, or much of it: a text, or OpenAI's `{type: content, content}`. `auto` "
        "copies from it, so a good one makes the answer faster; it never changes what the answer says. "
        "`usage.completion_tokens_details` counts its accepted and rejected tokens.",
    )

    apart: bool = Field(
        default=False,
        description="Answer from the session as it stands now, and leave it so: the answer waits for no other and is "
        "no turn of the session. To compare settings on equal terms.",
    )

    @field_validator("question")
    @classmethod
    def _not_blank(cls, question: str) -> str:
        if not question.strip():
            raise ValueError("the question is empty; write what you want to know")
        return question

    @property
    def predicted(self) -> str | None:
        """The prediction's text; None where there is none, or an empty one."""
        return (self.prediction.text or None) if self.prediction else None


class EditRequest(AnswerOptions):
    instruction: str = Field(description="What to change about the answer.", json_schema_extra=NOT_BLANK)

    @field_validator("instruction")
    @classmethod
    def _not_blank(cls, instruction: str) -> str:
        if not instruction.strip():
            raise ValueError("the instruction is empty; write what to change about the answer")
        return instruction


class SearchRequest(RequestBody):
    question: str = Field(min_length=1)
    top_k: int | None = Field(default=None, ge=1, le=1000)
    mode: Literal["hybrid", "dense", "lexical"] = "hybrid"
    filter: Filter | None = None


class CreateCollection(RequestBody):
    name: str = Field(json_schema_extra={"pattern": COLLECTION})


class TextDocument(RequestBody):
    """A document as JSON text. An id that exists already is replaced; without an id one is made from the text."""

    id: DocumentId | None = None
    title: Annotated[str, Field(min_length=1, max_length=500)] | None = None
    text: str = Field(min_length=1)
    metadata: Annotated[dict[str, Any], Field(max_length=64), at_most(64)] = Field(default_factory=dict)


class AddDocuments(RequestBody):
    documents: Annotated[list[TextDocument], Field(min_length=1)]


class _Response(BaseModel):
    model_config = ConfigDict(frozen=True)


class CitationOut(_Response):
    """Offsets are code points in `answer` and in the document's `text`; `copied` spans select equal text."""

    answer_start: int
    answer_end: int
    document_id: str
    chunk_id: str
    source_start: int
    source_end: int
    kind: Literal["copied", "retrieved"]


class PassageOut(_Response):
    document_id: str
    chunk_id: str
    title: str
    page: int | None = None
    heading: str | None = None
    text: str
    source_start: int
    source_end: int
    score: float
    rank: int
    in_prompt: bool = Field(default=True, description="False: retrieved, but the model's window had no room for it.")
    earlier: bool = Field(default=False, description="True: retrieved for an earlier turn and still in the prompt.")


class Answer(_Response):
    """An answer; while it runs, `answer` and what follows from it are null."""

    answer_id: str
    session_id: str
    turn: int = Field(description="Its place in the session, from 1.")
    version: int = Field(default=1, description="1 for an answer to a question; edits count on from it.")
    base: str | None = Field(default=None, description="Id of the version that this one is an edit of.")
    instruction: str | None = Field(default=None, description="What an edit was to change.")
    status: JobStatus
    question: str = Field(description="Of an edit: that of its first version.")
    collection: str | None
    answer: str | None = None
    citations: list[CitationOut] | None = None
    grounded: bool | None = Field(default=None, description="Whether any passage supports the answer.")
    note: str | None = Field(default=None, description="Says so where the passages do not hold the answer.")
    passages: list[PassageOut]
    passages_dropped: int = Field(default=0, description="Passages retrieved that the model's window had no room for.")
    passages_left: int = Field(
        default=0,
        description="Passages of earlier turns that left the prompt with this turn, the oldest first, because the "
        "model's window was full. Such a turn processes its prompt anew.",
    )
    turns_left: int = Field(default=0, description="Earlier turns that left the prompt with this turn, likewise.")
    retrieval_query: str | None = Field(
        default=None,
        description="What passages were looked for with: the question, or what it was rewritten to. Null where none "
        "were looked for.",
    )
    finish_reason: Literal["stop", "length", "cancelled", "error"] | None = None
    seed: int
    token_ids: list[int] | None = Field(
        default=None, description="The answer's token ids, where asked for with `?token_ids=true`."
    )
    usage: dict[str, int | dict[str, int]] | None = Field(
        default=None,
        description="prompt_tokens, completion_tokens, total_tokens, prompt_tokens_details with cached_tokens (those "
        "that the worker had processed for an earlier turn); of edits and where a `prediction` was given also "
        "completion_tokens_details with accepted_prediction_tokens and rejected_prediction_tokens: those drafted from "
        "the text under edit or the prediction that were accepted, and those that were not.",
    )
    timings: dict[str, float] | None = Field(
        default=None,
        description="Milliseconds. `rewrite` (making a follow-up stand alone, where that was tried) comes before "
        "`queued` and is not in `total`; `first_token` counts from the start of the worker's job.",
    )
    speculation: dict[str, Any] | None = None
    error: dict[str, Any] | None = Field(default=None, description="A problem document, where the answer failed.")


class Version(_Response):
    answer_id: str
    version: int
    base: str | None = Field(description="Null for the first one.")
    instruction: str | None
    status: JobStatus
    finish_reason: Literal["stop", "length", "cancelled", "error"] | None
    answer: str | None = Field(description="Null while it runs, and where it failed.")
    created: float


class VersionList(_Response):
    versions: list[Version]


class Turn(_Response):
    answer_id: str
    base: str | None = Field(default=None, description="Of an edit: id of the version that was edited.")
    instruction: str | None = Field(default=None, description="Of an edit: what it was to change.")
    question: str
    retrieval_query: str | None = Field(default=None, description="What passages were looked for with.")
    answer: str
    passages: list[PassageOut]
    created: float


class SessionSummary(_Response):
    session_id: str
    created: float
    updated: float
    turns: int
    question: str


class SessionList(_Response):
    sessions: list[SessionSummary]


class SessionMemory(_Response):
    """What a session takes in Redis."""

    tokens: int = Field(description="Of its prompt and last answer, as kept for its next turn.")
    epoch: int = Field(description="How often those were begun anew.")
    ids_bytes: int = Field(description="Of those tokens and the segments they come from.")
    turns_bytes: int = Field(description="Of questions, answers and passages as people read them.")
    answers_bytes: int = Field(description="Of its answers' records and events, which are kept for a shorter time.")


class Session(_Response):
    session_id: str
    turns: list[Turn]
    memory: SessionMemory


class CollectionInfo(_Response):
    name: str
    documents: int
    chunks: int
    bytes: int
    embedder: str
    dimension: int
    created: float
    generation: int


class CollectionList(_Response):
    collections: list[CollectionInfo]


class DocumentInfo(_Response):
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


class DocumentList(_Response):
    documents: list[DocumentInfo]
    next: str | None = Field(default=None, description="Pass as `after` for the next page; null on the last one.")


class SearchResult(_Response):
    passages: list[PassageOut]


class JobList(_Response):
    jobs: list[ListedJob]


class JobAccepted(_Response):
    job_id: str


class Cancelled(_Response):
    cancelled: bool = Field(description="False: it had ended already.")


class ProblemOut(_Response):
    """An RFC 9457 problem document; `code` is stable."""

    type: str = "about:blank"
    title: str
    status: int
    detail: str
    code: str
