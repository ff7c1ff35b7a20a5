"""From Anthropic's request bodies to what the pipeline answers. Knows fields; knows no HTTP and no responses."""

from __future__ import annotations

import json
import secrets
from collections.abc import Sequence
from itertools import groupby
from typing import Any

from rag_service.answering import engine_limits
from rag_service.anthropic.schemas import (
    Block,
    ClientTool,
    CountRequest,
    MessageIn,
    MessagesRequest,
    TextBlock,
    ToolResultBlock,
    ToolUseBlock,
)
from rag_service.prompting.conversation import Conversation, Message
from rag_service.replying.required_calls import check_tools, checked_schema, required
from workers.broker.capabilities import Capabilities
from workers.broker.messages import Calls
from workers.broker.sampling import SamplingFields
from workers.tokens.call_form import CallForm

_SAME = {*SamplingFields.model_fields.keys() - {"top_p"}, "logit_bias", "max_tokens", "speculation", "abstain"}
"""Fields with the same name and meaning."""
BETWEEN_TURNS = "\n\n"
"""Between the texts of messages of one role in a row, which are one turn."""


def conversation(body: MessagesRequest, collection: str | None, form: CallForm | None) -> Conversation:
    """What is to be answered. Raises BadRequest.

    Args:
        form: of calls; None where the model's chat template has no tools.
    """
    prompt = _prompt(body, collection, form)
    calls = _calls(body, form)
    return Conversation(
        **prompt,
        **{name: getattr(body, name) for name in _SAME},
        top_p=body.top_p or 1e-9,  # 0 keeps the best token alone
        seed=secrets.randbits(32) if body.seed is None else body.seed % 2**63,
        predicted=(body.prediction.text or None) if body.prediction else None,
        calls=calls,
        json_schema=None if calls else checked_schema(body.schema_asked, "output_config"),
        stop=[] if calls else body.stop_sequences,  # it would leave half of a call
    )


def counted(body: CountRequest, collection: str | None, form: CallForm | None) -> Conversation:
    """As much of it as the prompt depends on. Raises BadRequest."""
    return Conversation(**_prompt(body, collection, form), json_schema=body.schema_asked)


def _prompt(body: CountRequest, collection: str | None, form: CallForm | None) -> dict[str, Any]:
    check_tools(bool(body.tools) or body.has_tool_messages, form)
    system = [Message("system", _text(body.system))] if body.system else []
    return {
        "messages": (*system, *_messages(body.messages)),
        "tools": tuple(_shown(tool) for tool in body.offered),
        "collection": collection,
        "retrieval": body.retrieval,
    }


def check_engine(body: MessagesRequest, engine: Capabilities) -> None:
    """Refuse tools, calls, schemas and seeds that the engine cannot honour. Raises BadRequest."""
    engine_limits.check_tools(bool(body.offered) or body.has_tool_messages, body.forces, engine)
    if body.schema_asked is not None and not body.forces and not engine.json_schema:
        reason = "this kind of model server takes no JSON schema"
        raise engine_limits.refusal("output_config.format", reason, "ask for JSON in a message")
    if body.seed is not None and body.temperature > 0 and not engine.seeds:
        raise engine_limits.no_seeds()


def _messages(messages: Sequence[MessageIn]) -> list[Message]:
    """Turns, with the results of tools as messages of their own."""
    turns: list[Message] = []
    for role, run in groupby(messages, lambda message: message.role):
        parts: list[Message] = []
        for message in run:
            new = [part for blocks in _runs(message.content) for part in _parts(role, blocks)] or [Message(role, "")]
            if parts and new[0].role == parts[-1].role == role:
                last = parts.pop()
                text = BETWEEN_TURNS.join(filter(None, (last.text, new[0].text)))
                new[0] = Message(role, text, (*last.calls, *new[0].calls))
            parts += new
        turns += parts
    return turns


def _runs(blocks: Sequence[Block]) -> list[list[Block]]:
    """Blocks in a row that are of one message: results of tools are not of the user's."""
    return [list(run) for _, run in groupby(blocks, lambda block: isinstance(block, ToolResultBlock))]


def _parts(role: Any, blocks: Sequence[Block]) -> list[Message]:
    results = [block for block in blocks if isinstance(block, ToolResultBlock)]
    if results:
        return [Message("tool", f"{'Error: ' if one.is_error else ''}{_text(one.content)}") for one in results]
    called = [block for block in blocks if isinstance(block, ToolUseBlock)]
    calls = tuple((block.name, json.dumps(block.input, ensure_ascii=False)) for block in called)
    return [Message(role, _text([block for block in blocks if isinstance(block, TextBlock)]), calls)]


def _text(blocks: Sequence[TextBlock]) -> str:
    """Their texts as they are: the blocks of an answer with citations are one text."""
    return "".join(block.text for block in blocks)


def _shown(tool: ClientTool) -> str:
    """A tool as chat templates know it."""
    described = {} if tool.description is None else {"description": tool.description}
    function = {"name": tool.name, **described, "parameters": tool.input_schema}
    return json.dumps({"type": "function", "function": function}, ensure_ascii=False)


def _calls(body: MessagesRequest, form: CallForm | None) -> Calls | None:
    """The calls that the answer has to be. Raises BadRequest."""
    if not body.forces:
        return None
    functions = [(tool.name, tool.input_schema) for tool in body.tools]
    return required(functions, body.tool_choice.name, form, many=body.many, schema_field="input_schema")
