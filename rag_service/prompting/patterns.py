"""Kinds of questions by their wording: lines of a template, with a slot for what the question is about. Pure.

`/` stands between words of which any fits, `_` for a space in one of them, and a word with `?` may be missing:
`summarise/summarize the/our? {words} document/file?`. In scripts without spaces, words follow each other.
"""

from __future__ import annotations

import re
from functools import cache

SLOT = "{words}"

_MARKS = re.compile(r"(?:[\s\"'“”„«»‘’?!。！？]|\.(?!\w))+")
"""Marks around words; the full stop in "travel-policy.md" is none of them."""


def words_of(question: str, lines: str) -> str | None:
    """What stands in the slot of the first line that the whole question fits; None if it fits none, or nothing does."""
    text = " ".join(question.split())
    for line in filter(str.strip, lines.splitlines()):
        if match := _pattern(line).fullmatch(text):
            return _MARKS.sub(" ", match["words"]).strip() or None
    return None


def check(name: str, lines: str) -> str:
    """The lines, if each has the slot once.

    Raises:
        ValueError: one has not; the message names it.
    """
    for line in filter(str.strip, lines.splitlines()):
        if line.split().count(SLOT) != 1:
            raise ValueError(f"the template text `{name}` must have {SLOT} once in each line; {line[:80]!r} has not")
    return lines


@cache
def _pattern(line: str) -> re.Pattern[str]:
    pattern = ""
    for part in line.split():
        if part == SLOT:
            pattern += r"(?P<words>.+?)\s*"
            continue
        longest = sorted(part.removesuffix("?").split("/"), key=len, reverse=True)
        choices = "|".join(re.escape(choice.replace("_", " ")) for choice in longest)
        ends = r"(?!\w)" if part.isascii() else ""
        pattern += f"(?:(?:{choices}){ends})" + ("?" if part.endswith("?") else "") + r"\s*"
    return re.compile(rf"\W*{pattern}[?？.。!！]*", re.IGNORECASE)
