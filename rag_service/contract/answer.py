"""An answer as the API shows it, with its citations, passages and versions."""

from __future__ import annotations

import re
from typing import Any, Literal

from pydantic import Field

from rag_service.contract.json_body import ResponseBody
from workers.broker.progress import FinishReason, JobStatus

_LIST_SIGN = re.compile(r"^[-*•]\s+")
_BETWEEN_CELLS = re.compile(r"(?<!\\)\|")


class CitationOut(ResponseBody):
    """Offsets count code points in `answer` and in the document's `text`. `copied` spans select equal text."""

    answer_start: int
    answer_end: int
    collection: str = ""
    document_id: str
    chunk_id: str
    source_start: int
    source_end: int
    kind: Literal["copied", "retrieved"]
    support: float | None = Field(default=None, description="Of the answer's sentence that it is in.")


class NearestOut(ResponseBody):
    """A sentence of a passage: a document's code points `source_start` to `source_end`."""

    text: str
    title: str
    collection: str = ""
    document_id: str
    chunk_id: str
    source_start: int
    source_end: int
    columns: list[str] = Field(default_factory=list, description="What heads the cells, if it is a row of a table.")

    def shown(self) -> str:
        """As people read it: `“Ticket: Adults · Museum: 8.00” (Prices)`."""
        row = _LIST_SIGN.sub("", self.text.strip()).removeprefix("|").removesuffix("|")
        cells = [cell.strip() for cell in _BETWEEN_CELLS.split(row)]
        names = self.columns if len(self.columns) == len(cells) else [""] * len(cells)
        said = [f"{name}: {cell}" if name else cell for name, cell in zip(names, cells, strict=True) if cell]
        return f"“{' · '.join(said)}” ({self.title})"


class SentenceOut(ResponseBody):
    """A sentence of an answer, in code points."""

    start: int
    end: int
    support: float


class PassageOut(ResponseBody):
    collection: str = ""
    document_id: str
    chunk_id: str
    title: str
    date: str | None = Field(default=None, description="The document's own date, ISO 8601, if it has one.")
    page: int | None = None
    heading: str | None = None
    text: str
    source_start: int
    source_end: int
    score: float
    rank: int
    rerank_score: float | None = Field(
        default=None, description="The reranker's, on its own scale; null without one, and where its time was up."
    )
    in_prompt: bool = Field(default=True, description="False: retrieved, but it did not fit the model's window.")
    earlier: bool = Field(default=False, description="True: retrieved for an earlier turn and still in the prompt.")
    changed: bool = Field(
        default=False, description="True: its document was changed or deleted since and no longer has this text."
    )


class PromptPart(ResponseBody):
    """A part of a prompt. `template` is the model's own control text; `system` and `instruction` are the service's."""

    kind: Literal["template", "system", "passage", "question", "answer", "edited", "instruction", "notes"]
    text: str


class Answer(ResponseBody):
    """An answer. While it runs, `answer` and all fields that depend on it are null."""

    answer_id: str
    session_id: str
    turn: int = Field(description="Number of its turn in the session, from 1.")
    version: int = Field(default=1, description="1 for an answer to a question; each edit adds 1.")
    base: str | None = Field(default=None, description="Of an edit: id of the version that was edited.")
    instruction: str | None = Field(default=None, description="Of an edit: its instruction.")
    status: JobStatus
    question: str = Field(description="Of an edit: the question of its first version.")
    collection: str | None
    answer: str | None = None
    citations: list[CitationOut] | None = None
    support: float | None = Field(
        default=None, description="The chance that the passages state the answer, 0 to 1. Null without passages."
    )
    support_missing: str | None = Field(
        default=None, description="Why an answer from passages has no `support`: the model server cannot tell it."
    )
    sentences: list[SentenceOut] | None = Field(default=None, description="The answer's sentences with their support.")
    answerable: float | None = Field(
        default=None, description="The chance that the passages answer the question, by which `abstain` decides."
    )
    calibrated: bool | None = Field(
        default=None,
        description="Whether both chances were calibrated for this model, prompt and language, in this number format "
        "or in one that was measured to give the same chances. False: they only order answers.",
    )
    abstained: Literal["warned", "refused"] | None = Field(
        default=None, description="What `abstain` did: a warning in `note`, or a refusal instead of the answer."
    )
    signals: dict[str, float] | None = Field(
        default=None, description="What both chances were computed from (docs/how-to/support.md)."
    )
    grounded: bool | None = Field(
        default=None,
        json_schema_extra={"deprecated": True},
        description="Whether `support` is at least `RAG_ANSWERS__SUPPORT_THRESHOLD`. It will go: read `support`.",
    )
    note: str | None = Field(default=None, description="A remark if the passages probably do not state the answer.")
    nearest: NearestOut | None = Field(
        default=None,
        description="Of an answer with such a remark: the sentence of the passages that has most of what was asked. It "
        "need not answer. Null if none has much of it.",
    )
    passages: list[PassageOut]
    passages_dropped: int = Field(default=0, description="Retrieved passages that did not fit the model's window.")
    passages_left: int = Field(
        default=0,
        description="Passages of earlier turns that this turn dropped from the prompt, oldest first, because the "
        "model's window was full. Such a turn processes its whole prompt again.",
    )
    turns_left: int = Field(default=0, description="Earlier turns that this turn dropped, for the same reason.")
    turns_outdated: int = Field(
        default=0,
        description="Earlier turns that were left out of the prompt because a passage that they were answered from was "
        "changed or deleted since.",
    )
    turns_unsupported: int = Field(
        default=0,
        description="Earlier turns that were left out of the prompt because their answers have a warning, which a "
        "model would repeat.",
    )
    retrieval_query: str | None = Field(
        default=None,
        description="Query of the search for passages: the question, or its rewritten form. Null without a search.",
    )
    search_note: str | None = Field(
        default=None,
        description="A remark if a follow-up was searched for with its own words, because rewriting it took too long "
        "or failed.",
    )
    finish_reason: FinishReason | None = Field(
        default=None,
        description="`stop`: it was complete. `length`: it reached `max_tokens`. `repetition`: it repeated itself and "
        "was stopped (`RAG_ANSWERS__REPETITION_LENGTH`).",
    )
    seed: int
    token_ids: list[int] | None = Field(
        default=None, description="The answer's token ids, if the request had `?token_ids=true`."
    )
    prompt: list[PromptPart] | None = Field(
        default=None, description="The whole prompt in order, if the request had `?prompt=true`."
    )
    usage: dict[str, int | dict[str, int]] | None = Field(
        default=None,
        description="prompt_tokens, completion_tokens, total_tokens, and prompt_tokens_details with cached_tokens: "
        "prompt tokens that the worker had processed for an earlier turn. Edits and requests with a `prediction` also "
        "have completion_tokens_details with accepted_prediction_tokens and rejected_prediction_tokens: accepted and "
        "rejected tokens of drafts copied from the answer under edit or the prediction.",
    )
    timings: dict[str, float] | None = Field(
        default=None,
        description="Milliseconds. `rewrite`, the time to rewrite a follow-up, and `search` come before `queued` and "
        "are not part of `total`. `queued` is the time until a worker began to read the prompt, with waiting for "
        "other answers' prompts; `first_token` counts from its end.",
    )
    speculation: dict[str, Any] | None = None
    error: dict[str, Any] | None = Field(default=None, description="A problem document, if the answer failed.")


class Version(ResponseBody):
    answer_id: str
    version: int
    base: str | None = Field(description="Id of the version that was edited; null for the first version.")
    instruction: str | None
    status: JobStatus
    finish_reason: FinishReason | None
    answer: str | None = Field(description="Null while it runs, and if it failed.")
    created: float


class VersionList(ResponseBody):
    versions: list[Version]
