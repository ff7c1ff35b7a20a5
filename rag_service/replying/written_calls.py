"""Calls of tools, in the texts of models whose chat template has `<tool_call>`. Knows texts; knows no prompts."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from rag_service.contract.answer import Answer

OPENS = "<tool_call>"
_OPENED = re.compile(r"<tool_call>\s*(?=\{)")
_CLOSED = re.compile(r"\s*</tool_call>")
_READER = json.JSONDecoder()


def split(answer: Answer, most: int | None = None) -> tuple[Answer, list[dict[str, Any]]]:
    """An answer without its calls, with the citations of the remaining text, and the calls in OpenAI's form.

    Text that only looks like a call is left as it is.

    Args:
        most: most calls to return; None for all.
    """
    text = answer.answer or ""
    written = list(_calls(text))
    functions = [call for _, call in written if call is not None][:most]
    if not functions or len(functions) < len(written[:most]):
        return answer, []
    before = text[: written[0][0]]
    kept = [citation for citation in answer.citations or () if citation.answer_end <= len(before)]
    calls = [
        {"id": f"call_{answer.answer_id[:24]}_{index}", "type": "function", "function": call}
        for index, call in enumerate(functions)
    ]
    return answer.model_copy(update={"answer": before if before.strip() else None, "citations": kept}), calls


class Withheld:
    """Holds back text that may be a call while an answer is streamed."""

    def __init__(self) -> None:
        self._held = ""
        self._calling = False
        self.shown = ""

    def push(self, text: str) -> str:
        """Returns what is no call for sure."""
        self._held += text
        if self._calling:
            return ""
        place = self._held.find(OPENS)
        self._calling = place >= 0
        if place < 0:
            place = len(self._held) - self._begun()
        released, self._held = self._held[:place], self._held[place:]
        self.shown += released
        return released

    def rest(self, content: str | None) -> str:
        """What is still to be shown at the end, where `content` is the answer without its calls."""
        return (content or "")[len(self.shown) :]

    def _begun(self) -> int:
        """Length of the end of the held text that may begin a call."""
        for length in range(min(len(OPENS) - 1, len(self._held)), 0, -1):
            if OPENS.startswith(self._held[-length:]):
                return length
        return 0


def _calls(text: str) -> Iterator[tuple[int, dict[str, str] | None]]:
    """Where each call begins, and its name and arguments; None for what stands between the tags and is no call.

    A tag that no object follows is text that speaks of calls.
    A call ends where its JSON object does, whatever its strings hold.
    """
    place = 0
    while opened := _OPENED.search(text, place):
        begin, place = opened.span()
        try:
            read, end = _READER.raw_decode(text, place)
        except ValueError:
            read, end = None, place
        closed = _CLOSED.match(text, end) or _CLOSED.search(text, place)
        if closed is None:  # written to the end
            return
        yield begin, _call(read) if closed.start() == end else None
        place = closed.end()


def _call(read: Any) -> dict[str, str] | None:
    if not isinstance(read, dict):
        return None
    name, arguments = read.get("name"), read.get("arguments", {})
    if not isinstance(name, str) or not isinstance(arguments, dict | str):
        return None
    return {"name": name, "arguments": arguments if isinstance(arguments, str) else json.dumps(arguments)}
