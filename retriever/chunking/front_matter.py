"""Front matter: the block of YAML between `---` lines at the very start of a Markdown text. It is not prose.

Finds the block's end and its `title` without parsing YAML: if a line cannot belong to a mapping, the `---` is a
thematic break and the text after it is prose.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable

MAX_LINES = 200
"""A longer block is prose."""

_OPENS = re.compile(r"---[ \t]*\n")
_CLOSES = re.compile(r"(?:---|\.\.\.)[ \t]*")
_KEY = re.compile(r"""(?:"[^"]{1,100}"|'[^']{1,100}'|\w[^:#"'\[\]{}]{0,100})[ \t]*:(?:[ \t]|$)""")
_GOES_ON = re.compile(r"[ \t]|#|-[ \t]|-$|[\]}]")
_TITLE = re.compile(r"""["']?title["']?[ \t]*:(?:[ \t]+(?P<value>.*)|[ \t]*$)""")
_BLOCK_SCALAR = re.compile(r"[|>][-+0-9]*[ \t]*(?:#.*)?$")
_COMMENT = re.compile(r"(?:^|[ \t])#.*$")


def end(text: str) -> int:
    """Offset after the front matter and its closing line; 0 without front matter. `text` comes from `text.clean`."""
    lines = _lines(text)
    return lines[1] if lines else 0


def title(text: str) -> str | None:
    """The front matter's `title`; None without one."""
    lines, _ = _lines(text) or ([], 0)
    for number, line in enumerate(lines):
        if match := _TITLE.match(line):
            more = itertools.takewhile(lambda line: not line or line[0].isspace(), lines[number + 1 :])
            return _scalar((match["value"] or "").strip(), more)
    return None


def _scalar(value: str, more: Iterable[str]) -> str | None:
    """A YAML scalar as one line: its first line, and the indented lines after it."""
    if _BLOCK_SCALAR.match(value):
        value = ""
    elif not value.startswith(('"', "'")):
        value = _COMMENT.sub("", value)
    words = " ".join(" ".join([value, *more]).split())
    for quote, escape in (('"', '\\"'), ("'", "''")):
        if words.startswith(quote):
            inner = re.match(f"{quote}((?:{re.escape(escape)}|[^{quote}])*){quote}", words)
            words = inner[1].replace(escape, quote) if inner else words.strip(quote)
            break
    return words.strip() or None


def _lines(text: str) -> tuple[list[str], int] | None:
    """The lines between the two marks, and the offset after the second; None without front matter."""
    opening = _OPENS.match(text)
    if not opening:
        return None
    position = opening.end()
    lines: list[str] = []
    mapping = False
    while position < len(text) and len(lines) <= MAX_LINES:
        newline = text.find("\n", position)
        line_end = newline if newline >= 0 else len(text)
        line = text[position:line_end].rstrip()
        position = min(line_end + 1, len(text))
        if _CLOSES.fullmatch(line):
            return lines, position
        if _KEY.match(line):
            mapping = True
        elif line and not (line.startswith("#") or (mapping and _GOES_ON.match(line))):
            return None
        lines.append(line)
    return None
