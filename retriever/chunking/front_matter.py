"""Front matter: the block of YAML between `---` lines at the very start of a Markdown text. It is not prose.

Finds the block's end, its `title` and its date without parsing YAML: if a line cannot belong to a mapping, the `---`
is a thematic break and the text after it is prose.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable

from retriever.dates import iso_date

MAX_LINES = 200
"""A longer block is prose."""

_OPENS = re.compile(r"---[ \t]*\n")
_CLOSES = re.compile(r"(?:---|\.\.\.)[ \t]*")
_KEY = re.compile(r"""(?:"[^"]{1,100}"|'[^']{1,100}'|\w[^:#"'\[\]{}]{0,100})[ \t]*:(?:[ \t]|$)""")
_GOES_ON = re.compile(r"[ \t]|#|-[ \t]|-$|[\]}]")
_VALUE = re.compile(r"""["']?(?P<key>\w+)["']?[ \t]*:(?:[ \t]+(?P<value>.*)|[ \t]*$)""")
_DATES = ("updated", "last_modified", "lastmod", "modified", "date", "datum", "fecha", "published", "created")
_BLOCK_SCALAR = re.compile(r"[|>][-+0-9]*[ \t]*(?:#.*)?$")
_COMMENT = re.compile(r"(?:^|[ \t])#.*$")


def end(text: str) -> int:
    """Offset after the front matter and its closing line; 0 without front matter. `text` comes from `text.clean`."""
    lines = _lines(text)
    return lines[1] if lines else 0


def title(text: str) -> str | None:
    """The front matter's `title`; None without one."""
    return _value(text, "title")


def date(text: str) -> str | None:
    """When the text was last changed, or written, as its front matter says: ISO 8601; None if it does not say it."""
    return next((found for key in _DATES if (found := iso_date(_value(text, key)))), None)


def _value(text: str, key: str) -> str | None:
    lines, _ = _lines(text) or ([], 0)
    for number, line in enumerate(lines):
        if (match := _VALUE.match(line)) and match["key"] == key:
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
