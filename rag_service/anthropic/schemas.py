"""Request bodies of Anthropic's endpoints.

Knows Anthropic's fields: which are honoured, which change nothing here and are accepted, and which cannot be honoured
and are rejected; and this service's own beside them. Null means the default everywhere. Knows no storage.
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

from decoder.drafter_names import DrafterName
from rag_service.contract.id_patterns import TOOL_NAME
from rag_service.contract.json_body import at_most
from rag_service.contract.schemas import (
    ABSTAIN,
    AbstainOption,
    LogitBias,
    Prediction,
    RetrievalOptions,
    SpeculationOptions,
)
from rag_service.replying.bodies import (
    ForeignBody,
    Ignored,
    Reasons,
    Rejected,
    SchemaBody,
    check_rejected,
    list_harmless_values,
)
from workers.broker.sampling import MOST_STOPS, MOST_TOKENS, SEED_LIMIT, SamplingFields, StopString

NOT_HERE = "the client runs every tool, so offer tools of your own"
REASONS: Reasons = {
    "allowed_callers": (NOT_HERE, (["direct"],)),
    "container": ("it has no containers", ()),
    "defer_loading": ("every tool is shown to the model", (False,)),
    "effort": ("its models have no separate reasoning step", ("high",)),
    "inference_geo": ("it runs where you run it", ()),
    "input_examples": ("write them into the tool's description", ([],)),
    "thinking": ("its models have no separate reasoning step", ({"type": "disabled"},)),
}
"""Why a field cannot be honoured, and the values without effect."""
_check_rejected = check_rejected(REASONS)


class _Body(ForeignBody):
    model_config = ConfigDict(json_schema_extra=list_harmless_values(REASONS))


class TextBlock(_Body):
    """A text. The citations of an answer that is sent back change nothing."""

    type: Literal["text"]
    text: str
    cache_control: Ignored
    citations: Ignored


def _as_blocks(content: Any) -> Any:
    """A list of blocks, of kinds that this service reads. Raises ValueError."""
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    if not isinstance(content, list):
        raise ValueError("the content must be a string, or a list of blocks such as {type: text, text: …}")
    for block in content:
        kind = block.get("type", "") if isinstance(block, dict) else ""
        if isinstance(block, dict) and kind not in KINDS:
            raise ValueError(f"this service reads text; leave out the block of type {str(kind)[:40]!r}")
    return content


def _as_texts(content: Any) -> Any:
    """As `_as_blocks`, where only texts may be."""
    blocks = _as_blocks(content)
    for block in blocks:
        if isinstance(block, dict) and block.get("type") != "text":
            raise ValueError(f"only text may stand here; leave out the block of type {str(block.get('type'))[:40]!r}")
    return blocks


KINDS = ("text", "tool_use", "tool_result")
MOST_BLOCKS = 1024
Texts = Annotated[
    list[TextBlock],
    Field(max_length=MOST_BLOCKS),
    BeforeValidator(_as_texts, json_schema_input_type=str | list[TextBlock]),
]
ToolName = Annotated[str, Field(pattern=TOOL_NAME)]


class ToolUseBlock(_Body):
    """A call that an earlier answer made."""

    type: Literal["tool_use"]
    id: Ignored
    name: ToolName
    input: dict[str, Any]
    cache_control: Ignored
    caller: Ignored


class ToolResultBlock(_Body):
    """What a call gave. Results belong to the calls before them in their order."""

    type: Literal["tool_result"]
    tool_use_id: Ignored
    content: Texts = Field(default_factory=list)
    is_error: bool = Field(default=False, description="The model reads the content after `Error: `.")
    cache_control: Ignored


Block = TextBlock | ToolUseBlock | ToolResultBlock
Blocks = Annotated[
    list[Annotated[Block, Field(discriminator="type")]],
    Field(max_length=MOST_BLOCKS),
    BeforeValidator(_as_blocks, json_schema_input_type=str | list[Annotated[Block, Field(discriminator="type")]]),
]
ALLOWED = {"user": {"text", "tool_result"}, "assistant": {"text", "tool_use"}, "system": {"text"}}
"""Kinds of blocks by the role of their message."""


class MessageIn(_Body):
    """One message of a conversation. The content of an answer can be sent back as it is."""

    role: Literal["user", "assistant", "system"]
    content: Blocks

    @model_validator(mode="after")
    def _suits_its_role(self) -> MessageIn:
        for block in self.content:
            if block.type not in ALLOWED[self.role]:
                raise ValueError(f"a message of the role {self.role!r} has no block of type {block.type!r}")
        return self


class ClientTool(_Body):
    type: Literal["custom"] = "custom"
    name: ToolName
    description: str | None = None
    input_schema: dict[str, Any]
    cache_control: Ignored
    strict: Ignored
    eager_input_streaming: Ignored
    allowed_callers: Rejected
    defer_loading: Rejected
    input_examples: Rejected

    _honoured = field_validator("allowed_callers", "defer_loading", "input_examples", mode="before")(_check_rejected)


def _own_tools(tools: Any) -> Any:
    for tool in tools if isinstance(tools, list) else ():
        kind = tool.get("type") if isinstance(tool, dict) else None
        if kind not in (None, "custom"):
            raise ValueError(f"this service runs no tools of type {str(kind)[:40]!r}; {NOT_HERE}")
    return tools


class ToolChoice(_Body):
    """Whether the answer calls tools."""

    type: Literal["auto", "any", "tool", "none"]
    name: ToolName | None = None
    disable_parallel_tool_use: bool = Field(default=False, description="If true, there is at most one call.")

    @model_validator(mode="after")
    def _names_a_tool(self) -> ToolChoice:
        if (self.type == "tool") != (self.name is not None):
            raise ValueError("`name` belongs to the type tool, and to no other")
        return self


def _explained_choice(value: Any, validate: ValidatorFunctionWrapHandler) -> Any:
    try:
        return validate(value)
    except ValidationError:
        raise ValueError(
            'tool_choice is {"type": "auto"}, {"type": "any"}, {"type": "none"} or {"type": "tool", "name": "NAME"}'
        ) from None


class OutputFormat(SchemaBody):
    type: Literal["json_schema"]


class OutputConfig(_Body):
    format: OutputFormat | None = Field(default=None, description="A JSON schema that the answer follows.")
    effort: Rejected

    _honoured = field_validator("effort", mode="before")(_check_rejected)


class CountRequest(_Body):
    """What a prompt is made of."""

    model: str = Field(description="The served model's name or `default`; `rag:<collection>` grounds the answer.")
    messages: Annotated[list[MessageIn], at_most(2048)] = Field(min_length=1, max_length=2048)
    system: Texts = Field(default_factory=list)
    tools: Annotated[list[ClientTool], BeforeValidator(_own_tools), at_most(128)] = Field(
        default_factory=list, max_length=128
    )
    tool_choice: Annotated[ToolChoice, WrapValidator(_explained_choice)] = ToolChoice.model_validate({"type": "auto"})
    output_config: OutputConfig = OutputConfig.model_validate({})
    retrieval: RetrievalOptions = RetrievalOptions()
    cache_control: Ignored
    speed: Ignored
    thinking: Rejected
    user_profile_id: Ignored
    workspace_id: Ignored

    _honoured = field_validator("thinking", mode="before")(_check_rejected)

    @model_validator(mode="after")
    def _ends_with_the_user(self) -> CountRequest:
        if self.messages[-1].role == "assistant":
            raise ValueError(
                "the last message is the assistant's, and this service cannot continue a begun answer (prefill); let "
                "the last message be the user's"
            )
        return self

    @property
    def offered(self) -> list[ClientTool]:
        """Tools that the model may call."""
        return [] if self.tool_choice.type == "none" else self.tools

    @property
    def forces(self) -> bool:
        """Whether the answer has to be a call."""
        return self.tool_choice.type in ("any", "tool")

    @property
    def many(self) -> bool:
        """Whether there may be several calls."""
        return not self.tool_choice.disable_parallel_tool_use

    @property
    def has_tool_messages(self) -> bool:
        return any(block.type != "text" for message in self.messages for block in message.content)

    @property
    def schema_asked(self) -> dict[str, Any] | None:
        """The JSON schema that the answer has to follow; None for free text."""
        return self.output_config.format.schema_ if self.output_config.format else None


class MessagesRequest(CountRequest, SamplingFields):
    max_tokens: int = Field(ge=1, le=MOST_TOKENS)
    temperature: float = Field(default=1.0, ge=0.0, le=5.0, description="0 is greedy.")
    top_p: float = Field(default=1.0, ge=0.0, le=1.0)
    stop_sequences: Annotated[list[StopString], at_most(MOST_STOPS)] = Field(
        default_factory=list,
        max_length=MOST_STOPS,
        description="Strings that end the answer; the answer never contains them.",
    )
    stream: bool = Field(default=False, description="Whether to answer with server-sent events.")
    seed: int | None = Field(default=None, ge=-(2**63), lt=SEED_LIMIT)
    logit_bias: LogitBias = Field(default_factory=dict, description="Token ids with amounts to add to their logits.")
    speculation: DrafterName | SpeculationOptions | None = Field(
        default=None,
        description="`off`, `auto` or a drafter's name. Changes the speed of the answer, never its text.",
    )
    prediction: Prediction | None = Field(default=None, description="The expected answer, or much of it.")
    abstain: AbstainOption = ABSTAIN
    container: Rejected
    diagnostics: Ignored
    inference_geo: Rejected
    metadata: Ignored
    service_tier: Ignored

    _honoured_too = field_validator("container", "inference_geo", mode="before")(_check_rejected)


class ErrorDetails(BaseModel):
    error_code: str


class ErrorObject(BaseModel):
    type: str
    message: str
    details: ErrorDetails


class AnthropicErrorOut(BaseModel):
    """An error as Anthropic's API writes it."""

    type: Literal["error"]
    error: ErrorObject
    request_id: str


class TokenCount(BaseModel):
    input_tokens: int
