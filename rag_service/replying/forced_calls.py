"""An answer that is calls of tools and nothing else: read while it comes, and as OpenAI writes it.

Knows texts in the form of a model's chat template; knows no prompts and no schemas.
"""

from __future__ import annotations

from typing import Any

from workers.tokens.call_form import CallForm


class CallReader:
    """Reads the text of one answer.

    Attributes:
        calls: what has been read, the last one perhaps without its end.

    Args:
        form: the form of the model's calls; the grammar made the text follow it.
        answer_id: names the calls.
    """

    def __init__(self, form: CallForm, answer_id: str) -> None:
        self._form, self._answer_id = form, answer_id
        self.calls: list[dict[str, Any]] = []
        self._held = ""
        self._read = self._name
        self._depth = 0
        self._quoted = self._escaped = False

    def push(self, text: str) -> list[dict[str, Any]]:
        """What a text adds: items for a delta's `tool_calls`, in order."""
        self._held += text
        deltas: list[dict[str, Any]] = []
        while self._held and self._read(deltas):
            pass
        return deltas

    def _name(self, deltas: list[dict[str, Any]]) -> bool:
        before = (self._form.joint if self.calls else "") + self._form.before
        name, between, rest = self._held[len(before) :].partition(self._form.between)
        if not between:
            return False
        index = len(self.calls)
        call = {"id": f"call_{self._answer_id[:24]}_{index}", "type": "function"}
        self.calls.append({**call, "function": {"name": name, "arguments": ""}})
        deltas.append({"index": index, **call, "function": {"name": name, "arguments": ""}})
        self._held, self._read = rest, self._arguments
        return True

    def _arguments(self, deltas: list[dict[str, Any]]) -> bool:
        end = next((at for at, letter in enumerate(self._held, 1) if self._closes(letter)), None)
        piece, self._held = self._held[:end], self._held[len(self._held) if end is None else end :]
        self.calls[-1]["function"]["arguments"] += piece
        deltas.append({"index": len(self.calls) - 1, "function": {"arguments": piece}})
        if end is not None:
            self._read = self._end
        return end is not None

    def _end(self, deltas: list[dict[str, Any]]) -> bool:
        if len(self._held) < len(self._form.after):
            return False
        self._held, self._read = self._held[len(self._form.after) :], self._name
        return True

    def _closes(self, letter: str) -> bool:
        """Whether a letter ends the arguments' object."""
        if self._escaped:
            self._escaped = False
        elif letter == '"':
            self._quoted = not self._quoted
        elif self._quoted:
            self._escaped = letter == "\\"
        elif letter in "{[":
            self._depth += 1
        elif letter in "}]":
            self._depth -= 1
            return self._depth == 0
        return False
