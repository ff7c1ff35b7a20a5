"""From OpenAI's request bodies to what the pipeline answers. Knows fields; knows no HTTP and no responses."""

from __future__ import annotations

import json
import secrets
from typing import Any

from rag_service.answering import engine_limits
from rag_service.errors import BadRequest
from rag_service.openai.schemas import ChatMessage, ChatRequest, CompletionRequest
from rag_service.prompting.conversation import Conversation, Message
from rag_service.replying.required_calls import check_tools, checked_schema, required
from workers.broker.capabilities import Capabilities
from workers.broker.messages import Calls
from workers.broker.sampling import SamplingFields
from workers.tokens.call_form import CallForm

_SAME = {*SamplingFields.model_fields, "logit_bias", "stop", "speculation", "retrieval", "abstain"}
"""Fields with the same name and meaning."""


def chat(body: ChatRequest, collection: str | None, form: CallForm | None) -> list[Conversation]:
    """One conversation a choice. Raises BadRequest.

    Args:
        form: of calls; None where the model's chat template has no tools.
    """
    check_tools(bool(body.tools) or any(m.tool_calls or m.role == "tool" for m in body.messages), form)
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
        "json_schema": checked_schema(body.response_format.schema_asked, "response_format"),
    }


def _calls(body: ChatRequest, form: CallForm | None) -> Calls | None:
    """The calls that the answer has to be. Raises BadRequest."""
    if not body.forces:
        return None
    functions = [(tool.function.name, tool.function.parameters) for tool in body.tools]
    return required(functions, body.named, form, many=body.parallel_tool_calls, schema_field="parameters")
