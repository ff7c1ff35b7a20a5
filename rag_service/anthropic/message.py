"""An answer as Anthropic's message, whole.

Knows Anthropic's fields and this service's beside them: `answer_id`, `speculation` and `timings`, and of grounded
answers `documents`, `passages`, `support` and what goes with it. Knows no HTTP and no pipeline.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pydantic_core import from_json

from rag_service.anthropic.text_blocks import TextBlocks, cited, documents
from rag_service.contract.answer import Answer
from rag_service.replying import written_calls
from rag_service.replying.forced_calls import CallReader
from rag_service.replying.grounding import document_url, extras, grounding
from rag_service.replying.written_calls import Withheld
from workers.tokens.call_form import CallForm


@dataclass(frozen=True)
class MessageForm:
    """What a message and the events of its stream have in common.

    Args:
        model: as the client named it.
        base_url: where this service is reached, ending with a slash.
        collection: that grounds the answer; None for none.
        most_calls: of tools that the model decides on; 0 for none, None for any number.
        forced: how calls are written where the answer has to be calls; None where the model decides.
    """

    model: str
    base_url: str
    collection: str | None
    most_calls: int | None = 0
    forced: CallForm | None = None

    def reader(self, answer_id: str) -> CallReader | Withheld | None:
        """What reads calls from an answer's text while it comes; None where there are none to be read."""
        if self.forced is not None:
            return CallReader(self.forced, answer_id)
        return None if self.most_calls == 0 else Withheld()

    def blocks(self) -> TextBlocks:
        """For the text of one answer."""
        return TextBlocks(by_sentence=self.collection is not None)

    def split(self, answer: Answer) -> tuple[Answer, list[dict[str, Any]]]:
        """An answer without its calls, and these as `tool_use` blocks."""
        if self.forced is not None:
            reader = CallReader(self.forced, answer.answer_id)
            reader.push(answer.answer or "")
            answer, calls = answer.model_copy(update={"answer": None, "citations": []}), reader.calls
        elif self.most_calls == 0:
            return answer, []
        else:
            answer, calls = written_calls.split(answer, self.most_calls)
        return answer, [
            {**tool_use(call["id"], call["function"]["name"]), "input": _input(call["function"]["arguments"])}
            for call in calls
        ]

    def head(self, answer_id: str, input_tokens: int) -> dict[str, Any]:
        """The message before its first token."""
        return {
            "id": f"msg_{answer_id}",
            "type": "message",
            "role": "assistant",
            "model": self.model,
            "content": [],
            "stop_reason": None,
            "stop_sequence": None,
            "usage": {**_usage({}), "input_tokens": input_tokens},
        }

    def message(self, answer: Answer, stopped_at: str | None) -> dict[str, Any]:
        """A finished answer.

        Args:
            stopped_at: the request's string that ended it; None for none.
        """
        rest, calls = self.split(answer)
        blocks = self.blocks()
        blocks.push(rest.answer or "", last=True)
        content = [
            {**text_block(), "text": blocks.text[start:end], "citations": citations or None}
            for (start, end), citations in zip(blocks.spans, cited(rest, blocks.spans), strict=True)
        ]
        return {
            **self.head(answer.answer_id, 0),
            "content": [*content, *calls],
            **self.ending(answer, rest, calls, stopped_at),
            "usage": _usage(answer.usage or {}),
        }

    def ending(
        self, answer: Answer, rest: Answer, calls: Sequence[dict[str, Any]], stopped_at: str | None
    ) -> dict[str, Any]:
        """How the answer ended, and this service's own fields.

        Args:
            rest, calls: the answer's parts, of `split`.
        """
        reason = {"length": "max_tokens", "repetition": "max_tokens"}.get(answer.finish_reason or "", "end_turn")
        if reason == "end_turn" and calls:
            reason, stopped_at = "tool_use", None
        elif stopped_at is not None:
            reason = "stop_sequence"
        return {"stop_reason": reason, "stop_sequence": stopped_at, **extras(answer), **self._grounding(rest)}

    def usage(self, answer: Answer) -> dict[str, Any]:
        """Tokens of the whole answer."""
        return _usage(answer.usage or {})

    def _grounding(self, answer: Answer) -> dict[str, Any]:
        if self.collection is None:
            return {}
        titles = {(passage.collection, passage.document_id): passage.title for passage in answer.passages}
        listed = [
            {
                "collection": collection,
                "document_id": document_id,
                "title": titles[collection, document_id],
                "url": document_url(self.base_url, collection, document_id),
            }
            for collection, document_id in documents(answer)
        ]
        return {"documents": listed, **grounding(answer)}


def text_block() -> dict[str, Any]:
    """A block of text before its first character."""
    return {"type": "text", "text": "", "citations": None}


def tool_use(call_id: str, name: str) -> dict[str, Any]:
    """A call before its arguments. `call_id`: as the service names calls."""
    return {"type": "tool_use", "id": f"toolu_{call_id.removeprefix('call_')}", "name": name, "input": {}}


def _input(arguments: str) -> dict[str, Any]:
    """A call's arguments; of those that were cut off, what can be read. Text that is no object is its own argument."""
    try:
        read = from_json(arguments or "{}", allow_partial=True)
    except ValueError:
        read = arguments
    return read if isinstance(read, dict) else {"arguments": read}


def written_input(call: dict[str, Any]) -> str:
    """The arguments of a `tool_use` block as JSON."""
    return json.dumps(call["input"], ensure_ascii=False)


def _usage(used: dict[str, Any]) -> dict[str, Any]:
    """Anthropic counts tokens that were read from a cache apart from the others of the prompt."""
    cached = int(used.get("prompt_tokens_details", {}).get("cached_tokens", 0))
    return {
        "input_tokens": int(used.get("prompt_tokens", 0)) - cached,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": cached,
        "output_tokens": int(used.get("completion_tokens", 0)),
    }
