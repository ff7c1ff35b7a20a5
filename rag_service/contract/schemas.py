"""Request bodies of the HTTP API, as OpenAPI shows them.

Knows names, types and ranges; knows no storage. A field whose default is a setting is None here.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, field_validator

from decoder.drafter_names import DrafterName
from rag_service.contract.collections import joined
from rag_service.contract.id_patterns import COLLECTION, TOKEN_ID, DocumentId, NewDocumentId, SessionId
from rag_service.contract.json_body import RequestBody, at_most
from workers.broker.messages import Abstain
from workers.broker.sampling import MOST_TOKENS, SEED_LIMIT, SamplingFields, Stop

Mode = Literal["hybrid", "dense", "lexical", "none"]
TokenId = Annotated[str, Field(pattern=TOKEN_ID)]
NOT_BLANK: dict[str, Any] = {"pattern": r"\S"}
"""For the JSON schema alone; the validator gives a better message."""
Filter = Annotated[dict[str, Any], Field(max_length=16), at_most(16)]
Bias = Annotated[float, Field(ge=-100.0, le=100.0)]
LogitBias = Annotated[dict[TokenId, Bias], Field(max_length=1024), at_most(1024)]


class RetrievalOptions(RequestBody):
    """How passages are retrieved. The settings give the defaults."""

    top_k: int | None = Field(default=None, ge=1, le=1000, description="Maximum number of passages to retrieve.")
    mode: Mode | None = Field(default=None, description="`none` answers without passages.")
    filter: Filter | None = Field(
        default=None, description="Metadata keys and the values a document must have (docs/how-to/filters.md)."
    )
    document_id: DocumentId | None = Field(
        default=None,
        description="A document of the collection: its passages are read, all of them in order, and none are searched.",
    )
    rewrite: bool | None = Field(
        default=None,
        description="Whether a follow-up that does not stand alone is rewritten from the conversation before the "
        "search. `false` searches with its own words.",
    )


class SpeculationOptions(RequestBody):
    drafter: DrafterName = "auto"
    max_nodes: int | None = Field(default=None, ge=1, le=256, description="Maximum number of draft tokens in one step.")


class TextPart(RequestBody):
    type: Literal["text"]
    text: str


def _as_parts(content: Any) -> Any:
    if not isinstance(content, str | list):
        raise ValueError("the content of a prediction must be a string, or a list of {type: text, text: …}")
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


class Prediction(RequestBody):
    """The expected text of the answer, or of much of it, in the form of OpenAI's API."""

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
        raise ValueError("a prediction must be a string, or {type: content, content: …}")
    return {"type": "content", "content": value} if isinstance(value, str) else value


AbstainOption = Abstain | None
ABSTAIN: Any = Field(
    default=None,
    description="If the passages probably do not answer the question: `warn` says so in `note`, `refuse` gives a "
    "refusal instead of the answer, and the text comes only once that is decided; `off` does neither. Default: "
    "`RAG_ANSWERS__ABSTAIN`.",
)


class GenerationOptions(SamplingFields, RequestBody):
    """The options of every request that generates text, including those of OpenAI's endpoints."""

    max_tokens: int | None = Field(default=None, ge=1, le=MOST_TOKENS)
    stop: Stop = Field(default_factory=list, description="Strings that end the answer; the answer never contains them.")
    logit_bias: LogitBias = Field(default_factory=dict, description="Token ids with amounts to add to their logits.")
    stream: bool = Field(default=False, description="Whether to answer with server-sent events.")
    speculation: DrafterName | SpeculationOptions | None = Field(
        default=None,
        description="`off`, `auto` or a drafter's name. Changes the speed of the answer, never its text.",
    )

    @property
    def stops(self) -> list[str]:
        return [self.stop] if isinstance(self.stop, str) else list(self.stop)


class AnswerOptions(GenerationOptions):
    """How an answer is generated: the options that queries and edits share."""

    on_conflict: Literal["wait", "reject"] = Field(
        default="wait",
        description="While the session's last answer is not finished: `wait` for it, or `reject` the request at once "
        "with 409 `session_busy`.",
    )
    seed: int | None = Field(default=None, ge=0, lt=SEED_LIMIT, description="Default: random. Always returned.")


def asked(question: str) -> str:
    """A question. Raises ValueError if it is empty."""
    if not question.strip():
        raise ValueError("the question is empty; write a question")
    return question


class QueryRequest(AnswerOptions):
    question: str = Field(json_schema_extra=NOT_BLANK)
    collection: Annotated[str, BeforeValidator(joined, json_schema_input_type=str | list[str])] | None = Field(
        default=None,
        description="Name of a collection, or of several: a list, or one text with commas between the names. Default: "
        "the session's, else `default`.",
    )
    session_id: SessionId | None = Field(
        default=None, description="The session to continue; an unknown id starts a session. Default: a new session."
    )
    retrieval: RetrievalOptions = RetrievalOptions()
    prediction: (
        Annotated[Prediction, BeforeValidator(_as_prediction, json_schema_input_type=str | Prediction)] | None
    ) = Field(
        default=None,
        description="The expected text of the answer, or of much of it: a string, or OpenAI's `{type: content, "
        "content}`. `auto` copies from it, so a good prediction makes the answer faster. It never changes the answer's "
        "text. `usage.completion_tokens_details` counts its accepted and rejected tokens.",
    )

    abstain: AbstainOption = ABSTAIN
    prompt: Annotated[dict[str, str], at_most(16)] | None = Field(
        default=None,
        description="Texts of the prompt that replace those of the template, such as `{system: …}` "
        "(docs/how-to/prompts.md). Needs the role editor. In a session the first turn's system message stays.",
    )
    apart: bool = Field(
        default=False,
        description="Answer from the session's present state without adding a turn to it. Such an answer does not "
        "wait for other answers of the session. For comparing settings on the same state.",
    )

    @field_validator("question")
    @classmethod
    def _not_blank(cls, question: str) -> str:
        return asked(question)

    @property
    def predicted(self) -> str | None:
        """The prediction's text; None without a prediction or if it is empty."""
        return (self.prediction.text or None) if self.prediction else None


class EditRequest(AnswerOptions):
    instruction: str = Field(description="What to change in the answer.", json_schema_extra=NOT_BLANK)

    @field_validator("instruction")
    @classmethod
    def _not_blank(cls, instruction: str) -> str:
        if not instruction.strip():
            raise ValueError("the instruction is empty; write what to change in the answer")
        return instruction


class SearchRequest(RequestBody):
    question: str = Field(json_schema_extra=NOT_BLANK)
    top_k: int | None = Field(default=None, ge=1, le=1000)
    mode: Literal["hybrid", "dense", "lexical"] = "hybrid"
    filter: Filter | None = Field(default=None, description="As in `retrieval` of a query.")
    neighbours: int = Field(
        default=0,
        ge=0,
        le=5,
        description="How many chunks before and after each passage come with it, in one text. No text comes twice: a "
        "passage that a better one has taken in is left out.",
    )
    section: bool = Field(
        default=False,
        description="Whether the section that a passage is in comes with it, with its subsections, up to some 12,000 "
        "characters around the passage.",
    )

    @field_validator("question")
    @classmethod
    def _not_blank(cls, question: str) -> str:
        return asked(question)


class CreateCollection(RequestBody):
    name: str = Field(json_schema_extra={"pattern": COLLECTION})


class RenameCollection(RequestBody):
    name: str = Field(json_schema_extra={"pattern": COLLECTION}, description="The new name.")


class TextDocument(RequestBody):
    """A document as text. It replaces a document with the same id; the default id is a hash of the text."""

    id: NewDocumentId | None = None
    title: Annotated[str, Field(min_length=1, max_length=500)] | None = None
    text: str = Field(min_length=1)
    metadata: Annotated[dict[str, Any], Field(max_length=64), at_most(64)] = Field(default_factory=dict)


class AddDocuments(RequestBody):
    documents: Annotated[list[TextDocument], Field(min_length=1)]


class UploadedDocument(RequestBody):
    """What a form says of one of its files."""

    id: NewDocumentId | None = Field(default=None, description="Default: made from the file's name.")
    title: Annotated[str, Field(min_length=1, max_length=500)] | None = Field(
        default=None, description="Default: the file's own."
    )
    metadata: Annotated[dict[str, Any], Field(max_length=64), at_most(64)] = Field(default_factory=dict)


class UploadedDocuments(RequestBody):
    documents: list[UploadedDocument]
