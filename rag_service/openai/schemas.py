"""Request bodies of the OpenAI-compatible endpoints.

Knows OpenAI's fields: which are honoured, which change nothing here and are accepted, and which cannot be honoured and
are rejected; and this service's own beside them. Null means the default everywhere. Knows no storage.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    ValidatorFunctionWrapHandler,
    WrapValidator,
    field_validator,
    model_validator,
)

from rag_service.contract.id_patterns import TOOL_NAME
from rag_service.contract.json_body import at_most
from rag_service.contract.schemas import ABSTAIN, AbstainOption, GenerationOptions, Prediction, RetrievalOptions
from rag_service.replying.bodies import (
    ForeignBody,
    Ignored,
    Reasons,
    Rejected,
    SchemaBody,
    check_rejected,
    list_harmless_values,
)
from workers.broker.sampling import MOST_TOKENS, SEED_LIMIT

NO_FUNCTIONS = "send `tools` and `tool_choice` instead"
REASONS: Reasons = {
    "audio": ("it supports text only", ()),
    "echo": ("the prompt is not repeated", (False,)),
    "function_call": (NO_FUNCTIONS, ("none", "auto")),
    "functions": (NO_FUNCTIONS, ([],)),
    "modalities": ("it outputs text only", (["text"],)),
    "reasoning_effort": ("its models have no separate reasoning step", ("none",)),
    "suffix": ("its models continue a text and cannot fill a gap", ("",)),
    "verbosity": ("ask for a short or long answer in the messages", ("medium",)),
    "web_search_options": ("it searches collections: name one as rag:<collection>", ()),
}
"""Why a field cannot be honoured, and the values without effect."""


_check_rejected = check_rejected(REASONS)


class _Body(ForeignBody):
    model_config = ConfigDict(json_schema_extra=list_harmless_values(REASONS))


class ContentPart(_Body):
    """A part of a message; only text is read."""

    type: str
    text: str = ""
    refusal: str = ""
    image_url: Ignored
    input_audio: Ignored
    file: Ignored

    @model_validator(mode="after")
    def _is_text(self) -> ContentPart:
        if self.type not in ("text", "refusal"):
            raise ValueError(f"this service reads text; leave out the part of type {self.type[:40]!r}")
        return self


FunctionName = Annotated[str, Field(pattern=TOOL_NAME)]


class CalledFunction(_Body):
    name: FunctionName
    arguments: str = "{}"


class ToolCall(_Body):
    """A call that an earlier answer made."""

    id: Ignored
    index: Ignored
    type: Literal["function"] = "function"
    function: CalledFunction


class Function(_Body):
    name: FunctionName
    description: str | None = None
    parameters: dict[str, Any] = Field(default_factory=dict)
    strict: Ignored


class Tool(_Body):
    type: Literal["function"]
    function: Function


class ChosenFunction(_Body):
    name: FunctionName


class ChosenTool(_Body):
    """The function to call."""

    type: Literal["function"]
    function: ChosenFunction


TOOL_CHOICE = "`none`: no call; `auto`: the model decides; `required`: only calls; or the function to call."


def _explained_choice(value: Any, validate: ValidatorFunctionWrapHandler) -> Any:
    try:
        return validate(value)
    except ValidationError:
        raise ValueError(
            'tool_choice is "none", "auto", "required" or {"type": "function", "function": {"name": "NAME"}}'
        ) from None


class ChatMessage(_Body):
    """One message of a conversation. A message that this service answered with can be sent back as it is."""

    role: Literal["system", "developer", "user", "assistant", "tool"]
    content: str | Annotated[list[ContentPart], Field(max_length=1024)] = ""
    name: Ignored
    refusal: Ignored
    annotations: Ignored
    citations: Ignored
    passages: Ignored
    support: Ignored
    sentences: Ignored
    answerable: Ignored
    calibrated: Ignored
    abstained: Ignored
    grounded: Ignored
    note: Ignored
    nearest: Ignored
    retrieval_query: Ignored
    search_note: Ignored
    audio: Rejected
    function_call: Rejected
    tool_calls: list[ToolCall] = Field(default_factory=list, max_length=128)
    tool_call_id: Ignored

    _honoured = field_validator("audio", "function_call", mode="before")(_check_rejected)

    @property
    def text(self) -> str:
        if isinstance(self.content, str):
            return self.content
        return "".join(part.text or part.refusal for part in self.content)


class StreamOptions(_Body):
    include_usage: bool = Field(default=False, description="A last chunk, without choices, carries `usage`.")
    include_obfuscation: Ignored


class JsonSchema(SchemaBody):
    name: str = Field(default="answer", max_length=64)
    description: Ignored
    strict: Ignored


class ResponseFormat(_Body):
    type: Literal["text", "json_object", "json_schema"]
    json_schema: JsonSchema | None = None

    @model_validator(mode="after")
    def _has_schema(self) -> ResponseFormat:
        if self.type == "json_schema" and self.json_schema is None:
            raise ValueError("a response_format of type json_schema needs the field json_schema: {name, schema}")
        return self

    @property
    def schema_asked(self) -> dict[str, Any] | None:
        """The JSON schema that the answer has to follow; None for free text."""
        if self.type == "json_object":
            return {"type": "object"}
        return self.json_schema.schema_ if self.json_schema else None


class _Generation(_Body, GenerationOptions):
    """The common part of chat and plain completions."""

    model: str = Field(description="The served model's name or `default`; `rag:<collection>` grounds the answer.")
    temperature: float = Field(default=1.0, ge=0.0, le=5.0, description="0 is greedy.")
    top_p: float = Field(default=1.0, ge=0.0, le=1.0)
    n: int = Field(default=1, ge=1, le=16, description="Number of answers; each is sampled with different noise.")
    seed: int | None = Field(default=None, ge=-(2**63), lt=SEED_LIMIT)
    stream_options: StreamOptions = Field(default_factory=lambda: StreamOptions.model_validate({}))
    prediction: Prediction | None = Field(default=None, description="The expected answer, or much of it.")
    retrieval: RetrievalOptions = RetrievalOptions()
    abstain: AbstainOption = ABSTAIN
    user: Ignored
    metadata: Ignored
    store: Ignored
    service_tier: Ignored
    safety_identifier: Ignored
    prompt_cache_key: Ignored
    prompt_cache_retention: Ignored


class ChatRequest(_Generation):
    messages: Annotated[list[ChatMessage], at_most(2048)] = Field(min_length=1, max_length=2048)
    max_completion_tokens: int | None = Field(default=None, ge=1, le=MOST_TOKENS)
    logprobs: bool = False
    top_logprobs: int | None = Field(default=None, ge=0, le=20)
    response_format: ResponseFormat = ResponseFormat(type="text")
    parallel_tool_calls: bool = Field(default=True, description="If false, only the first call is returned.")
    modalities: Rejected
    audio: Rejected
    tools: Annotated[list[Tool], at_most(128)] = Field(default_factory=list, max_length=128)
    tool_choice: Annotated[
        Literal["none", "auto", "required"] | ChosenTool,
        WrapValidator(_explained_choice),
        Field(description=TOOL_CHOICE),
    ] = "auto"
    functions: Rejected
    function_call: Rejected
    reasoning_effort: Rejected
    verbosity: Rejected
    web_search_options: Rejected

    _honoured = field_validator(
        "audio",
        "function_call",
        "functions",
        "modalities",
        "reasoning_effort",
        "verbosity",
        "web_search_options",
        mode="before",
    )(_check_rejected)

    @model_validator(mode="after")
    def _asks_for_logprobs(self) -> ChatRequest:
        if self.top_logprobs is not None and not self.logprobs:
            raise ValueError("top_logprobs needs logprobs: true")
        return self

    @property
    def offered(self) -> list[Tool]:
        """Tools that the model may call."""
        return [] if self.tool_choice == "none" else self.tools

    @property
    def forces(self) -> bool:
        """Whether the answer has to be a call."""
        return self.tool_choice not in ("none", "auto")

    @property
    def named(self) -> str | None:
        """The function that the answer has to call."""
        return self.tool_choice.function.name if isinstance(self.tool_choice, ChosenTool) else None

    @property
    def forced(self) -> list[Tool]:
        """Tools of which the answer has to call one."""
        named = self.named
        return [tool for tool in self.tools if self.forces and named in (None, tool.function.name)]

    @property
    def measured(self) -> int | None:
        return (self.top_logprobs or 0) if self.logprobs else None


TokenIds = Annotated[
    list[Annotated[int, Field(ge=0, lt=2**31)]], Field(min_length=1, max_length=1_000_000, fail_fast=True)
]


class CompletionRequest(_Generation):
    prompt: (
        str
        | TokenIds
        | Annotated[list[str], Field(min_length=1, max_length=16)]
        | Annotated[list[TokenIds], Field(min_length=1, max_length=16)]
    )
    logprobs: int | None = Field(default=None, ge=0, le=20)
    response_format: ResponseFormat = ResponseFormat(type="text")
    best_of: int | None = Field(default=None, ge=1, le=16)
    echo: Rejected
    suffix: Rejected

    _honoured = field_validator("echo", "suffix", mode="before")(_check_rejected)

    @model_validator(mode="after")
    def _best_of_is_n(self) -> CompletionRequest:
        if self.best_of not in (None, self.n):
            raise ValueError("this service gives every answer it makes: let best_of equal n, or leave it out")
        return self

    @property
    def prompts(self) -> list[str | list[int]]:
        if isinstance(self.prompt, str):
            return [self.prompt]
        if isinstance(self.prompt[0], int):
            return [self.prompt]
        return list(self.prompt)


def _texts_only(value: Any) -> Any:
    numbers = isinstance(value, list) and value and isinstance(value[0], int | list)
    if numbers:
        raise ValueError(
            "send texts: token ids mean nothing to this model (in LangChain: check_embedding_ctx_length=False)"
        )
    return value


class EmbeddingRequest(_Body):
    model: str
    input: Annotated[str | Annotated[list[str], Field(min_length=1, max_length=2048)], BeforeValidator(_texts_only)]
    encoding_format: Literal["float", "base64"] = "float"
    dimensions: int | None = Field(default=None, ge=1, le=1_000_000, description="Only the model's own.")
    user: Ignored

    @property
    def texts(self) -> list[str]:
        return [self.input] if isinstance(self.input, str) else self.input


class OpenAIError(BaseModel):
    message: str
    type: str
    param: str | None
    code: str


class OpenAIErrorOut(BaseModel):
    """An error as OpenAI's API writes it."""

    error: OpenAIError
