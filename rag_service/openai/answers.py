"""Answers as OpenAI's responses and chunks, in the forms of chat and of plain completions.

Knows OpenAI's fields and this service's beside them: `citations`, `passages`, `support` and what goes with it, `note`,
`retrieval_query` and `search_note` of grounded answers on the message (of a stream, on the last delta; of completions,
on the choice), `answer_id`, `seed`, `speculation` and `timings` on the choice. Knows no HTTP and no pipeline.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from rag_service.contract.answer import Answer
from rag_service.openai.logprobs import Measured, chat_form, completion_form
from rag_service.replying import written_calls
from rag_service.replying.forced_calls import CallReader
from rag_service.replying.grounding import document_url, extras, grounding
from workers.tokens.call_form import CallForm
from workers.tokens.tokenizer import Tokens

Piece = str | dict[str, Any]
"""Text, or an item of a delta's `tool_calls`."""


@dataclass(frozen=True)
class Form(ABC):
    """What responses of one request have in common.

    Args:
        request_id: of the whole response.
        model: as the client named it.
        created: Unix time, seconds.
        base_url: where this service is reached, ending with a slash.
        collection: that grounds the answers; None for none.
        measured: whether log-probabilities are wanted.
        tokens: for their texts.
        most_calls: of tools that the model decides on; 0 for none, None for any number.
        forced: how calls are written where every answer has to be calls; None where the model decides.
        named: whether the request names the function that is called.
    """

    request_id: str
    model: str
    created: int
    base_url: str
    collection: str | None
    measured: bool
    tokens: Tokens
    most_calls: int | None = 0
    forced: CallForm | None = None
    named: bool = False

    prefix: ClassVar[str]
    whole_object: ClassVar[str]
    chunk_object: ClassVar[str]

    @abstractmethod
    def choice(self, index: int, answer: Answer, run: Sequence[Measured]) -> dict[str, Any]:
        """A finished answer as a choice of a whole response."""

    @abstractmethod
    def opening(self, index: int) -> dict[str, Any] | None:
        """The choice of a stream's first chunk, if it has one."""

    @abstractmethod
    def piece(self, index: int, piece: Piece, run: Sequence[Measured]) -> dict[str, Any]:
        """The choice of a chunk with text, or with a part of a call."""

    @abstractmethod
    def ending(self, index: int, answer: Answer) -> dict[str, Any]:
        """The choice of an answer's last chunk."""

    def split(self, answer: Answer) -> tuple[Answer, list[dict[str, Any]]]:
        """An answer without its calls of tools, and these."""
        if self.forced is not None:
            reader = CallReader(self.forced, answer.answer_id)
            reader.push(answer.answer or "")
            return answer.model_copy(update={"answer": None, "citations": []}), reader.calls
        return (answer, []) if self.most_calls == 0 else written_calls.split(answer, self.most_calls)

    def reader(self, answer_id: str) -> CallReader | written_calls.Withheld | None:
        """What reads calls from an answer's text while it comes; None where there are none to be read."""
        if self.forced is not None:
            return CallReader(self.forced, answer_id)
        return None if self.most_calls == 0 else written_calls.Withheld()

    def response(self, choices: list[dict[str, Any]], usage: dict[str, Any]) -> dict[str, Any]:
        return {**self._head(self.whole_object), "choices": choices, "usage": usage}

    def chunk(self, *choices: dict[str, Any], usage: dict[str, Any] | None = None) -> dict[str, Any]:
        return {**self._head(self.chunk_object), "choices": list(choices), "usage": usage}

    def grounding(self, answer: Answer) -> dict[str, Any]:
        """What a grounded answer's message carries besides OpenAI's fields."""
        return {} if self.collection is None else grounding(answer)

    def annotations(self, answer: Answer) -> list[dict[str, Any]]:
        """Citations as `url_citation`; the URL is the document's, its fragment the characters (RFC 5147)."""
        titles = {(passage.collection, passage.document_id): passage.title for passage in answer.passages}
        annotations = []
        for citation in answer.citations or ():
            document = document_url(self.base_url, citation.collection, citation.document_id)
            url = f"{document}#char={citation.source_start},{citation.source_end}"
            place = {"start_index": citation.answer_start, "end_index": citation.answer_end}
            title = titles.get((citation.collection, citation.document_id), citation.document_id)
            annotations.append({"type": "url_citation", "url_citation": {**place, "title": title, "url": url}})
        return annotations

    def _head(self, name: str) -> dict[str, Any]:
        return {
            "id": f"{self.prefix}-{self.request_id}",
            "object": name,
            "created": self.created,
            "model": self.model,
            "system_fingerprint": f"rag-{self.tokens.hash[:12]}",
        }


class ChatForm(Form):
    prefix, whole_object, chunk_object = "chatcmpl", "chat.completion", "chat.completion.chunk"

    def choice(self, index: int, answer: Answer, run: Sequence[Measured]) -> dict[str, Any]:
        answer, calls = self.split(answer)
        message: dict[str, Any] = {"role": "assistant", "content": answer.answer, "refusal": None}
        if calls:
            message["tool_calls"] = calls
        return {
            "index": index,
            "message": {**message, "annotations": self.annotations(answer), **self.grounding(answer)},
            "logprobs": chat_form(run, self.tokens) if self.measured else None,
            "finish_reason": self._reason(answer, calls),
            **extras(answer),
        }

    def opening(self, index: int) -> dict[str, Any]:
        content = "" if self.forced is None else None
        return self._delta(index, {"role": "assistant", "content": content, "refusal": None})

    def piece(self, index: int, piece: Piece, run: Sequence[Measured]) -> dict[str, Any]:
        delta = {"content": piece} if isinstance(piece, str) else {"tool_calls": [piece]}
        return self._delta(index, delta, chat_form(run, self.tokens) if self.measured else None)

    def ending(self, index: int, answer: Answer) -> dict[str, Any]:
        answer, calls = self.split(answer)
        delta = {**({"annotations": self.annotations(answer)} if self.collection else {}), **self.grounding(answer)}
        if calls and self.forced is None:  # forced calls were streamed as they were written
            delta["tool_calls"] = [{"index": place, **call} for place, call in enumerate(calls)]
        return {**self._delta(index, delta), "finish_reason": self._reason(answer, calls), **extras(answer)}

    def _reason(self, answer: Answer, calls: Sequence[Any]) -> str:
        """As OpenAI says it: `tool_calls`, but `stop` for a named function; a forced call may be cut off."""
        if self.forced is None:
            return "tool_calls" if calls else finish_reason(answer)
        return "tool_calls" if answer.finish_reason == "stop" and not self.named else finish_reason(answer)

    @staticmethod
    def _delta(index: int, delta: dict[str, Any], logprobs: dict[str, Any] | None = None) -> dict[str, Any]:
        return {"index": index, "delta": delta, "logprobs": logprobs, "finish_reason": None}


class CompletionForm(Form):
    prefix, whole_object, chunk_object = "cmpl", "text_completion", "text_completion"

    def choice(self, index: int, answer: Answer, run: Sequence[Measured]) -> dict[str, Any]:
        ending = self.ending(index, answer)
        return {**ending, "text": answer.answer, "logprobs": self.piece(index, "", run)["logprobs"]}

    def opening(self, index: int) -> None:
        return None

    def piece(self, index: int, piece: Piece, run: Sequence[Measured]) -> dict[str, Any]:
        logprobs = completion_form(run, self.tokens) if self.measured else None
        return {"index": index, "text": piece, "logprobs": logprobs, "finish_reason": None}

    def ending(self, index: int, answer: Answer) -> dict[str, Any]:
        last = {**self.piece(index, "", ()), "logprobs": None, "finish_reason": finish_reason(answer)}
        return {**last, **self.grounding(answer), **extras(answer)}


def finish_reason(answer: Answer) -> str:
    """OpenAI's word: an answer that was cancelled has stopped, and one that repeated itself was cut off."""
    return "length" if answer.finish_reason in ("length", "repetition") else "stop"


def usage(answers: Sequence[Answer], n: int) -> dict[str, Any]:
    """Of a whole response: `n` choices of one prompt count its tokens once."""
    used = [answer.usage or {} for answer in answers]
    prompts = sum(_count(one, "prompt_tokens") for one in used[::n])
    completions = sum(_count(one, "completion_tokens") for one in used)
    details = [one["completion_tokens_details"] for one in used if "completion_tokens_details" in one]
    total: dict[str, Any] = {
        "prompt_tokens": prompts,
        "completion_tokens": completions,
        "total_tokens": prompts + completions,
        "prompt_tokens_details": {"cached_tokens": sum(_cached(one) for one in used[::n])},
    }
    if details:
        total["completion_tokens_details"] = {
            name: sum(_count(one, name) for one in details if isinstance(one, dict))
            for name in ("accepted_prediction_tokens", "rejected_prediction_tokens")
        }
    return total


def _count(usage: dict[str, Any], name: str) -> int:
    return int(usage.get(name, 0))


def _cached(usage: dict[str, Any]) -> int:
    return int(usage.get("prompt_tokens_details", {}).get("cached_tokens", 0))
