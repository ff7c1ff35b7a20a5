"""A model's form of tool calls: the texts around a function's name and its arguments, read from its chat template.

Knows texts; knows no grammars, no schemas and no token ids.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

OPENS = "<tool_call>"
CLOSES = "</tool_call>"


@dataclass(frozen=True, slots=True)
class CallForm:
    """A call is `before`, the function's name, `between`, its arguments (a JSON object), `after`; `joint` stands
    between two calls."""

    before: str = f'{OPENS}\n{{"name": "'
    between: str = '", "arguments": '
    after: str = f"}}\n{CLOSES}"
    joint: str = "\n"

    @property
    def readable(self) -> bool:
        """Whether the text between the tags is a JSON object with the name and the arguments."""
        if not (self.before.startswith(OPENS) and self.after.endswith(CLOSES)):
            return False
        body = f"{self.before.removeprefix(OPENS)}f{self.between}{{}}{self.after.removesuffix(CLOSES)}"
        try:
            return bool(json.loads(body) == {"name": "f", "arguments": {}})
        except ValueError:
            return False


def call_form(pieces: Sequence[str | int], names: tuple[int, int], arguments: tuple[int, int]) -> CallForm:
    """The form of two consecutive calls in a template; Qwen2.5's form if it cannot be read.

    Args:
        pieces: of a rendering, control text and slots.
        names, arguments: the slots of the two calls.
    """
    places = [pieces.index(slot) for pair in zip(names, arguments, strict=True) for slot in pair]
    if places != list(range(places[0], places[0] + 7, 2)) or not 0 < places[0] < len(pieces) - 7:
        return CallForm()
    texts = [str(pieces[place]) for place in (places[0] - 1, places[0] + 1, places[1] + 1, places[3] + 1)]
    start, between, inner, end = texts
    after, closed, rest = inner.partition(CLOSES)
    joint, opened, before = rest.partition(OPENS)
    form = CallForm(opened + before, between, after + closed, joint)
    alike = start.endswith(form.before) and end.startswith(form.after)
    return form if alike and form.readable else CallForm()
