"""Answers as OpenAI's responses and chunks, in the forms of chat and of plain completions.

Knows OpenAI's fields and this service's beside them: `citations`, `passages`, `grounded`, `note` and `retrieval_query`
of grounded answers on the message (of a stream, on the last delta; of completions, on the choice), `answer_id`,
`speculation` and `timings` on the choice. Knows no HTTP and no pipeline.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar
from urllib.parse import quote

from rag_service import openai_tools
from rag_service.errors import InvalidRequest, Problem, Unavailable
from rag_service.openai_logprobs import Measured, chat_form, completion_form
from rag_service.schemas import Answer
from workers.tokens import Tokens


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
        most_calls: of tools; 0 for none, None for any number.
    """

    request_id: str
    model: str
    created: int
    base_url: str
    collection: str | None
    measured: bool
    tokens: Tokens
    most_calls: int | None = 0

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
    def piece(self, index: int, text: str, run: Sequence[Measured]) -> dict[str, Any]:
        """The choice of a chunk with text."""

    @abstractmethod
    def ending(self, index: int, answer: Answer) -> dict[str, Any]:
        """The choice of an answer's last chunk."""

    def split(self, answer: Answer) -> tuple[Answer, list[dict[str, Any]]]:
        """An answer without its calls of tools, and these."""
        return (answer, []) if self.most_calls == 0 else openai_tools.split(answer, self.most_calls)

    def response(self, choices: list[dict[str, Any]], usage: dict[str, Any]) -> dict[str, Any]:
        return {**self._head(self.whole_object), "choices": choices, "usage": usage}

    def chunk(self, *choices: dict[str, Any], usage: dict[str, Any] | None = None) -> dict[str, Any]:
        return {**self._head(self.chunk_object), "choices": list(choices), "usage": usage}

    def extras(self, answer: Answer) -> dict[str, Any]:
        """What a choice carries besides OpenAI's fields."""
        return {"answer_id": answer.answer_id, "speculation": answer.speculation, "timings": answer.timings}

    def grounding(self, answer: Answer) -> dict[str, Any]:
        """What a grounded answer's message carries besides OpenAI's fields."""
        if self.collection is None:
            return {}
        return {
            "citations": [citation.model_dump() for citation in answer.citations or ()],
            "passages": [passage.model_dump() for passage in answer.passages],
            "grounded": answer.grounded,
            "note": answer.note,
            "retrieval_query": answer.retrieval_query,
        }

    def annotations(self, answer: Answer) -> list[dict[str, Any]]:
        """Citations as `url_citation`; the URL is the document's, its fragment the characters (RFC 5147)."""
        titles = {passage.document_id: passage.title for passage in answer.passages}
        found = []
        for citation in answer.citations or ():
            document = f"v1/collections/{quote(self.collection or '', safe='')}/documents/{quote(citation.document_id)}"
            url = f"{self.base_url}{document}#char={citation.source_start},{citation.source_end}"
            place = {"start_index": citation.answer_start, "end_index": citation.answer_end}
            title = titles.get(citation.document_id, citation.document_id)
            found.append({"type": "url_citation", "url_citation": {**place, "title": title, "url": url}})
        return found

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
            "finish_reason": "tool_calls" if calls else finish_reason(answer),
            **self.extras(answer),
        }

    def opening(self, index: int) -> dict[str, Any]:
        return self._delta(index, {"role": "assistant", "content": "", "refusal": None})

    def piece(self, index: int, text: str, run: Sequence[Measured]) -> dict[str, Any]:
        return self._delta(index, {"content": text}, chat_form(run, self.tokens) if self.measured else None)

    def ending(self, index: int, answer: Answer) -> dict[str, Any]:
        answer, calls = self.split(answer)
        delta = {**({"annotations": self.annotations(answer)} if self.collection else {}), **self.grounding(answer)}
        if calls:
            delta["tool_calls"] = [{"index": place, **call} for place, call in enumerate(calls)]
        reason = "tool_calls" if calls else finish_reason(answer)
        return {**self._delta(index, delta), "finish_reason": reason, **self.extras(answer)}

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

    def piece(self, index: int, text: str, run: Sequence[Measured]) -> dict[str, Any]:
        logprobs = completion_form(run, self.tokens) if self.measured else None
        return {"index": index, "text": text, "logprobs": logprobs, "finish_reason": None}

    def ending(self, index: int, answer: Answer) -> dict[str, Any]:
        last = {**self.piece(index, "", ()), "logprobs": None, "finish_reason": finish_reason(answer)}
        return {**last, **self.grounding(answer), **self.extras(answer)}


def finish_reason(answer: Answer) -> str:
    """OpenAI's word: an answer that was cancelled has stopped."""
    return "length" if answer.finish_reason == "length" else "stop"


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


def failed(answer: Answer) -> Problem:
    """Why an answer failed, as a refusal of its request."""
    error = answer.error or {}
    kind = {422: InvalidRequest, 503: Unavailable}.get(int(error.get("status", 500)), Problem)
    return kind(str(error.get("detail", "The answer failed.")), str(error.get("code", "internal_error")))


def _count(usage: dict[str, Any], name: str) -> int:
    return int(usage.get(name, 0))


def _cached(usage: dict[str, Any]) -> int:
    return int(usage.get("prompt_tokens_details", {}).get("cached_tokens", 0))
