"""What stands within a line of AsciiDoc: attributes, links, footnotes and other macros → their text."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

_BUILT_IN = {
    "amp": "&", "apos": "'", "asterisk": "*", "backtick": "`", "blank": "", "caret": "^", "cpp": "C++", "empty": "",
    "gt": ">", "hyphen": "-", "lsquo": "‘", "lt": "<", "ldquo": "“", "nbsp": "\xa0", "plus": "+", "pp": "++",
    "quot": '"', "rdquo": "”", "rsquo": "’", "sp": " ", "startsb": "[", "endsb": "]", "tilde": "~", "vbar": "|",
    "wj": "", "zwsp": "",
}  # fmt: skip
"""Attributes that every document has."""
MOST_CHARS = 10_000
"""A line does not grow beyond this by its attributes."""
MOST_ADDED = 2_000_000
"""Characters by which a document grows by the values of its attributes, at most; the others stay names."""
_MARKS = re.compile(r"[{\[<(`]")
"""A line without any of these has nothing to read in it."""
_REFERENCE = re.compile(r"(?<!\\)\{(\w[\w-]*)\}")
_IN = r"\[((?:\\.|[^\[\]\\\n])*)\]"
"""What a macro is called with. An opening bracket in it must be escaped: else each would be read to the line's end."""
_LINK = re.compile(
    rf"(?<![\w`])(?:link:|xref:|mailto:|(?=https?://|ftp://|irc://|\{{\w))([^\s\[\]<>`]{{0,2000}})(?:{_IN})?"
)
"""Also what goes no further than its target: else it would be read again from each place in it that begins a link."""
_CROSS = re.compile(r"<<#?([^<>,\n]+)(?:,([^<>\n]*))?>>")
_FOOTNOTE = re.compile(rf"footnote(?:ref)?:([\w-]{{0,200}}){_IN}")
_MACRO = re.compile(
    r"(?<!\w)(image|kbd|btn|menu|icon|stem|latexmath|asciimath|pass|anchor|indexterm2?):(?!:)"
    rf"([^\s\[\]]{{0,2000}})(?:{_IN})?"
)
_ANCHOR = re.compile(r"\[\[\[?([\w:.-]{1,200})(?:,[^\[\]\n]*)?\]?\]\]")
_INDEX = re.compile(r"\({3}[^()\n]+\){3}")
_INDEXED = re.compile(r"(?<!\()\({2}([^()\n]+)\){2}(?!\))")
_ROLE = re.compile(r"\[[.#%\w -]{1,200}\](##?)(\S(?:[^#\n]*\S)?)\1")
_QUOTED = re.compile(r"([\"'])`(\S(?:[^`\n]*\S)?)`\1")
_NAMED = re.compile(r",\s*[\w-]+=.*$")


@dataclass(slots=True)
class Attributes:
    """Those that a document has set so far, by name."""

    values: dict[str, str] = field(default_factory=dict)
    left: int = MOST_ADDED

    def value(self, reference: re.Match[str]) -> str:
        """What stands for a reference: itself if its attribute is not set, or if the document has grown enough."""
        value = self.values.get(reference[1], _BUILT_IN.get(reference[1], reference[0]))
        added = max(0, len(value) - len(reference[0]))
        if added > self.left:
            return reference[0]
        self.left -= added
        return value


def inline(line: str, attributes: Attributes) -> str:
    """The line's text."""
    if _MARKS.search(line):
        line = _read(substituted(line, attributes))
    return line[:-2] if line.endswith(" +") else line


def _read(line: str) -> str:
    line = _FOOTNOTE.sub(lambda found: f" ({_text(found[2])})" if found[2] else "", line)
    line = _MACRO.sub(_macro, line)
    line = _LINK.sub(lambda found: found[0] if found[2] is None else _text(found[2]) or found[1], line)
    line = _CROSS.sub(lambda found: (found[2] or "").strip() or found[1], line)
    line = _INDEXED.sub(r"\1", _INDEX.sub("", _ANCHOR.sub("", line)))
    return _QUOTED.sub(r"\1\2\1", _ROLE.sub(r"\2", line))


def substituted(line: str, attributes: Attributes) -> str:
    """The line with the values of the attributes that it names, and that those name."""
    for _ in range(4):
        changed = _REFERENCE.sub(attributes.value, line)
        if changed == line or len(changed) > MOST_CHARS + len(line):
            break
        line = changed
    return line


def alternative(attributes: str) -> str:
    """What is shown of an image that cannot be: its alternative text."""
    text = _text(attributes)
    return "" if "=" in text.partition(",")[0] else text.partition(",")[0]


def _text(attributes: str) -> str:
    """The text among a macro's attributes."""
    text = attributes.replace("\\]", "]").strip()
    if text.startswith('"') and '"' in text[1:]:
        return text[1 : text.index('"', 1)]
    return _NAMED.sub("", text).removesuffix("^")


def _macro(found: re.Match[str]) -> str:
    name, target, text = found.groups()
    if text is None:
        return found[0]
    if name == "image":
        return alternative(text)
    if name == "menu":
        return " > ".join(filter(None, (target, text)))
    if name in ("stem", "latexmath", "asciimath"):
        return f"${text}$"
    return "" if name in ("icon", "anchor", "indexterm") else text.replace("\\]", "]")
