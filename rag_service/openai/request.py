"""From OpenAI's request bodies to what the pipeline answers. Knows fields; knows no HTTP and no responses."""

from __future__ import annotations

import json
import secrets
from typing import Any

from rag_service.answering import engine_limits
from rag_service.errors import BadRequest
from rag_service.openai.schemas import ChatMessage, ChatRequest, CompletionRequest, Function, ResponseFormat
from rag_service.prompting.conversation import Conversation, Message
from workers.broker.capabilities import Capabilities
from workers.broker.messages import CallableFunction, Calls
from workers.broker.sampling import SamplingFields
from workers.grammar.schemas import BadSchema, check_calls, check_schema
from workers.tokens.call_form import CallForm

_SAME = {*SamplingFields.model_fields, "logit_bias", "stop", "speculation", "retrieval", "abstain"}
"""Fields with the same name and meaning."""
_OPEN = {"additionalProperties", "patternProperties", "$ref", "allOf", "anyOf", "oneOf"}
"""What says more about an object's properties than `properties`."""


def chat(body: ChatRequest, collection: str | None, form: CallForm | None) -> list[Conversation]:
    """One conversation a choice. Raises BadRequest.

    Args:
        form: of calls; None where the model's chat template has no tools.
    """
    if form is None and (body.tools or any(m.tool_calls or m.role == "tool" for m in body.messages)):
        raise BadRequest(
            "This model's chat template has no tools, so it can call none: leave `tools` and messages of tools out, or "
            "serve a model that has them.",
            "unsupported_tools",
            param="tools",
        )
    messages = [_message(message) for message in body.messages]
    common = _common(body, collection)
    common |= {"messages": tuple(messages), "logprobs": body.measured}
    common["tools"] = tuple(json.dumps(tool.model_dump(exclude_none=True), ensure_ascii=False) for tool in body.offered)
    if (calls := _calls(body, form)) is not None:  # a text to stop at would leave half of a call
        common |= {"calls": calls, "json_schema": None, "stop": []}
    common["max_tokens"] = body.max_completion_tokens or body.max_tokens
    return [Conversation(**common, choice=choice) for choice in range(body.n)]


def check_engine(body: ChatRequest, engine: Capabilities) -> None:
    """Refuse tools, calls and seeds that the engine cannot honour. Raises BadRequest."""
    tools = bool(body.offered) or any(message.tool_calls or message.role == "tool" for message in body.messages)
    engine_limits.check_tools(tools, body.forces, engine)
    if body.seed is not None and body.temperature > 0 and not engine.seeds:
        raise engine_limits.no_seeds()


def completion(body: CompletionRequest, collection: str | None, vocab_size: int) -> list[Conversation]:
    """One conversation a choice, choices of one prompt after the other. Raises BadRequest.

    A collection answers a prompt as a question; the model itself continues it.
    """
    conversations = []
    common = _common(body, collection) | {"logprobs": body.logprobs, "max_tokens": body.max_tokens}
    for prompt in body.prompts:
        if isinstance(prompt, list) and (collection is not None or max(prompt) >= vocab_size):
            raise BadRequest(
                f"A prompt of token ids goes to the model itself, with ids from 0 to {vocab_size - 1}; send text.",
                "invalid_prompt",
                param="prompt",
            )
        content: dict[str, Any] = {"prompt": prompt}
        if collection is not None:
            content = {"messages": (Message("user", str(prompt)),)}
        conversations += [Conversation(**common, **content, choice=choice) for choice in range(body.n)]
    return conversations


def _message(message: ChatMessage) -> Message:
    calls = tuple((call.function.name, _object(call.function.arguments)) for call in message.tool_calls)
    return Message("system" if message.role == "developer" else message.role, message.text, calls)


def _object(arguments: str) -> str:
    """A call's arguments as a template's `tojson` writes them; as they are where they are no JSON."""
    try:
        return json.dumps(json.loads(arguments), ensure_ascii=False)
    except ValueError:
        return arguments


def _common(body: ChatRequest | CompletionRequest, collection: str | None) -> dict[str, Any]:
    # All choices share the seed; their index makes their noise different.
    seed = secrets.randbits(32) if body.seed is None else body.seed % 2**63
    return {
        **{name: getattr(body, name) for name in _SAME},
        "top_p": body.top_p or 1e-9,  # 0 keeps the best token alone
        "seed": seed,
        "collection": collection,
        "predicted": (body.prediction.text or None) if body.prediction else None,
        "json_schema": _schema(body.response_format),
    }


def _calls(body: ChatRequest, form: CallForm | None) -> Calls | None:
    """The calls that the answer has to be. Raises BadRequest."""
    if not body.forces:
        return None
    if not body.tools:
        raise BadRequest(
            "tool_choice asks for a call, and there is nothing to call: send `tools`, or leave tool_choice out.",
            "missing_tools",
            param="tool_choice",
        )
    if not body.forced:
        names = ", ".join(sorted({tool.function.name for tool in body.tools}))
        raise BadRequest(
            f"tool_choice names the function {body.named!r}, which is not among `tools`: name one of {names}.",
            "unknown_tool",
            param="tool_choice",
        )
    functions = [
        CallableFunction(name=tool.function.name, parameters=_arguments(tool.function)) for tool in body.forced
    ]
    calls = Calls(functions=functions, many=body.named is None and body.parallel_tool_calls)
    try:
        check_calls(calls, form)
    except BadSchema as error:
        raise BadRequest(
            f"Arguments of a function cannot be made to follow the JSON schema in its `parameters`: {error}.",
            "invalid_schema",
            param="tools",
        ) from None
    return calls


def _arguments(function: Function) -> dict[str, Any]:
    """The JSON schema that the arguments of a call follow: an object, of what the function declares and no more.

    Raises BadRequest.
    """
    schema = function.parameters or {"type": "object", "properties": {}}
    kinds = schema.get("type", "object")
    if "object" not in ([kinds] if isinstance(kinds, str) else kinds):
        raise BadRequest(
            f"Arguments are an object, and the `parameters` of the function {function.name!r} describe none: let their "
            'type be "object".',
            "invalid_schema",
            param="tools",
        )
    closed = {"additionalProperties": False} if "properties" in schema and not _OPEN & set(schema) else {}
    return {**schema, **closed, "type": "object"}


def _schema(form: ResponseFormat) -> dict[str, Any] | None:
    schema = form.schema_asked
    if schema is not None:
        try:
            check_schema(schema)
        except BadSchema as error:
            raise BadRequest(
                f"The answer cannot be made to follow this JSON schema: {error}.",
                "invalid_schema",
                param="response_format",
            ) from None
    return schema
