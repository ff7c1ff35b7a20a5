"""A model's chat template, split into control text and slots for contents.

Knows Jinja as transformers runs it, and a folder's template; knows no token ids. Contents never pass through the
template: each has a slot in its place, so nothing in a content can become control text.
"""

from __future__ import annotations

import datetime
import itertools
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jinja2
import jinja2.ext
from jinja2.sandbox import ImmutableSandboxedEnvironment

from workers.tokens.call_form import OPENS, CallForm, call_form
from workers.tokens.token_bytes import UnsupportedTokenizer

Piece = str | int
"""Control text, or the index of the message whose content belongs here."""

_SLOT = re.compile("\ue0f0([0-9]+)\ue0f1")


@dataclass(frozen=True, slots=True)
class Shape:
    """A message as its template sees it.

    Attributes:
        role: "system", "user", "assistant" or "tool".
        filled: whether it has a content.
        calls: how many tools it calls.
    """

    role: str
    filled: bool = True
    calls: int = 0


class ChatTemplate:
    """One chat template.

    Args:
        source: the Jinja source.
        variables: the template's variables besides the messages, such as `bos_token` and `eos_token`.

    Attributes:
        append_only: whether the rendering of m turns always begins the rendering of m + 1 turns.
        call_form: its form of tool calls, if it shows tools, calls between <tool_call> and </tool_call>, and tool
            results; else None.
        strips_content: whether the template removes white space around contents, so that callers must too.

    Raises:
        UnsupportedTokenizer: the template cannot be compiled or drops contents.
    """

    def __init__(self, source: str, variables: Mapping[str, str] | None = None) -> None:
        environment = ImmutableSandboxedEnvironment(
            trim_blocks=True, lstrip_blocks=True, extensions=[jinja2.ext.loopcontrols]
        )
        environment.filters["tojson"] = _to_json
        environment.globals["raise_exception"] = _raise_exception
        environment.globals["strftime_now"] = lambda form: datetime.datetime.now().strftime(form)
        self.source = source
        self._variables = dict(variables or {})
        try:
            self._template = environment.from_string(source)
        except jinja2.TemplateError as error:
            raise UnsupportedTokenizer(f"the model's chat template cannot be compiled: {error}") from error
        self.append_only = self._check_append_only()
        self.call_form = self._read_call_form()
        padded = self._render([{"role": "user", "content": " \n" + _slot(0) + "\n "}], False)
        self.strips_content = " \n" + _slot(0) + "\n " not in padded

    def pieces(self, roles: Sequence[str], add_generation_prompt: bool) -> list[Piece]:
        """Split the rendering of messages with these roles.

        Returns control text and message indices in prompt order, every message once, no empty text. A template that
        rejects a system message gets the system content, two line ends and the first user content as one message.

        Raises:
            UnsupportedTokenizer: the template rejects these roles, or does not write every content once.
        """
        contents = [{"role": role, "content": _slot(index)} for index, role in enumerate(roles)]
        try:
            text = self._render(contents, add_generation_prompt)
        except jinja2.TemplateError as error:
            if list(roles[:2]) != ["system", "user"]:
                raise UnsupportedTokenizer(
                    f"the model's chat template rejects the roles {', '.join(roles)}: {error}; "
                    "alternate user and assistant messages, with at most one system message in front"
                ) from error
            merged = {"role": "user", "content": f"{_slot(0)}\n\n{_slot(1)}"}
            text = self._render([merged, *contents[2:]], add_generation_prompt)
        pieces, slots = _pieces(text)
        if slots != list(range(len(roles))):
            raise UnsupportedTokenizer(
                f"the model's chat template does not write each content of the roles {', '.join(roles)} exactly once; "
                "use a model with a plain chat template"
            )
        return pieces

    def tool_pieces(self, shapes: Sequence[Shape], tools: int, add_generation_prompt: bool) -> list[Piece]:
        """As `pieces`, with calls of tools. Slots are numbered: the messages, then for each call in order its name and
        its arguments (JSON), then the tools (JSON).

        Raises:
            UnsupportedTokenizer: the template rejects the messages, or does not write every slot once.
        """
        messages: list[dict[str, Any]] = []
        expected = [index for index, shape in enumerate(shapes) if shape.filled]
        slots = itertools.count(len(shapes))
        for index, shape in enumerate(shapes):
            message: dict[str, Any] = {"role": shape.role, "content": _slot(index) if shape.filled else ""}
            if shape.calls:
                pairs = [(next(slots), next(slots)) for _ in range(shape.calls)]
                expected += [slot for pair in pairs for slot in pair]
                calls = [{"name": _slot(name), "arguments": _JsonSlot(arguments)} for name, arguments in pairs]
                message["tool_calls"] = [{"type": "function", "function": call} for call in calls]
            messages.append(message)
        shown = [_JsonSlot(next(slots)) for _ in range(tools)]
        expected += [slot.index for slot in shown]
        try:
            text = self._render(messages, add_generation_prompt, shown or None)
        except jinja2.TemplateError as error:
            raise UnsupportedTokenizer(
                f"the model's chat template rejects these messages with tools: {error}"
            ) from error
        pieces, written = _pieces(text)
        if written != sorted(expected):
            raise UnsupportedTokenizer("the model's chat template does not write these messages with tools once each")
        return pieces

    def _read_call_form(self) -> CallForm | None:
        shapes = [Shape("user"), Shape("assistant", False, 1), Shape("tool"), Shape("assistant"), Shape("user")]
        try:
            if OPENS not in _text(self.tool_pieces(shapes, 1, True)):
                return None
        except UnsupportedTokenizer:
            return None
        try:
            pieces = self.tool_pieces([Shape("user"), Shape("assistant", False, 2)], 1, False)
        except UnsupportedTokenizer:  # the template writes one call a message
            return CallForm()
        return call_form(pieces, (2, 4), (3, 5))

    def _render(
        self, messages: Sequence[Mapping[str, Any]], add_generation_prompt: bool, tools: Sequence[Any] | None = None
    ) -> str:
        try:
            return self._template.render(
                messages=messages,
                tools=tools,
                documents=None,
                add_generation_prompt=add_generation_prompt,
                **self._variables,
            )
        except (TypeError, ValueError, LookupError, AttributeError) as error:  # from inside the template
            raise jinja2.TemplateError(f"{type(error).__name__}: {error}") from error

    def _check_append_only(self) -> bool:
        for first in ([], ["system"]):
            before = ""
            for turns in range(1, 4):
                past = [*first, *(["user", "assistant"] * turns)]
                prompt = _text(self.pieces(past[:-1], True))
                answered = _text(self.pieces(past, False))
                if not (prompt.startswith(before) and answered.startswith(prompt)):
                    return False
                before = answered
        return True


def read_chat_template(folder: Path, config: Mapping[str, Any]) -> ChatTemplate | None:
    """The template of a model folder: chat_template.jinja, or else the one in tokenizer_config.json."""
    file = folder / "chat_template.jinja"
    source = file.read_text(encoding="utf-8") if file.is_file() else config.get("chat_template")
    if isinstance(source, list):  # several by name
        source = next((entry["template"] for entry in source if entry["name"] == "default"), None)
    if not source:
        return None
    names = ("bos_token", "eos_token", "unk_token", "pad_token")
    variables = {name: text for name in names if (text := token_text(config.get(name))) is not None}
    return ChatTemplate(source, variables)


def token_text(token: Any) -> str | None:
    """The text of a token as tokenizer_config.json writes it: a string, or an object with `content`."""
    if isinstance(token, Mapping):
        token = token.get("content")
    return token if isinstance(token, str) else None


def _slot(index: int) -> str:
    return f"\ue0f0{index}\ue0f1"


def _pieces(text: str) -> tuple[list[Piece], list[int]]:
    """Control text and slots of a rendering, in order; and its slots, sorted."""
    parts = enumerate(_SLOT.split(text))
    pieces: list[Piece] = [int(part) if index % 2 else part for index, part in parts if index % 2 or part]
    return pieces, sorted(piece for piece in pieces if isinstance(piece, int))


def _text(pieces: Sequence[Piece]) -> str:
    return "".join(_slot(piece) if isinstance(piece, int) else piece for piece in pieces)


def _raise_exception(message: str) -> str:
    raise jinja2.TemplateError(message)


@dataclass(frozen=True, slots=True)
class _JsonSlot:
    """A slot for JSON, which a template passes to its `tojson` filter."""

    index: int


def _to_json(value: Any, ensure_ascii: bool = False, indent: int | None = None, **options: Any) -> str:
    if isinstance(value, _JsonSlot):
        return _slot(value.index)
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, **options)
