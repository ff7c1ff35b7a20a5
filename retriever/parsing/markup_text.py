"""reStructuredText and AsciiDoc → Markdown."""

from __future__ import annotations

import re

from docutils.core import publish_parts

from retriever.parsing.html_text import body_text
from retriever.parsing.tables import markdown_table
from retriever.parsing.text import decode
from retriever.types import LoadedDocument

_SAFE = {
    "file_insertion_enabled": False,
    "raw_enabled": False,
    "report_level": 5,
    "halt_level": 5,
    "embed_stylesheet": False,
    "stylesheet_path": "",
    "math_output": "LaTeX",
    "doctitle_xform": False,
    "initial_header_level": 1,
}
_ADOC_HEADING = re.compile(r"^(={1,6})[ \t]+(\S.*)$", re.MULTILINE)
_ADOC_SOURCE = re.compile(
    r"^(?:\[(?:source|listing)(?:,\s*([\w+-]+))?[^\]\n]*\]\n)?(-{4,}|\.{4,})\n(.*?)\n\2$", re.M | re.S
)
_ADOC_TABLE = re.compile(r"^(\|===)[^\n]*\n(.*?)\n\1[ \t]*$", re.M | re.S)
_ADOC_CELL = re.compile(r"(?<!\\)(?:\d*(?:\.\d+)?\+)?[.<>^]{0,3}[aehlmsdv]?(?<!\\)\|")
_ADOC_CAPTION = re.compile(r"^\.(?=[^\s.])", re.MULTILINE)
_ADOC_IMAGE = re.compile(r"^image::?[^\s\[]+\[([^,\]\n]*)[^\]\n]*\]$", re.MULTILINE)
_ADOC_LINE = re.compile(r"^(?:\[[^\]\n]*\]|:[\w-]+:.*|//(?!/).*|={4,}|\*{4,}|_{4,}|\|===.*)\n", re.MULTILINE)
_ADOC_LIST = re.compile(r"^([*.]{1,5})[ \t]+(?=\S)", re.MULTILINE)
_ADOC_LINK = re.compile(r"(?:link:|https?://[^\s\[]+(?=\[))([^\s\[]*)\[([^\]]+)\]")


def read_rst(data: bytes, stem: str) -> LoadedDocument:
    """By docutils (public domain); directives that read other files are off."""
    page = publish_parts(decode(data), writer="html5", settings_overrides=_SAFE)["body"]
    return _titled(body_text(page), stem)


def read_asciidoc(data: bytes, stem: str) -> LoadedDocument:
    """Headings, lists, links and code blocks of AsciiDoc in Markdown's form; there is no parser in Python to use."""
    text = decode(data)
    text = _ADOC_SOURCE.sub(lambda found: f"```{found[1] or ''}\n{found[3]}\n```", text)
    text = _ADOC_TABLE.sub(lambda found: _adoc_table(found[2]), text)
    text = _ADOC_LINE.sub("", text)
    text = _ADOC_CAPTION.sub("", _ADOC_IMAGE.sub(lambda found: found[1], text))
    text = _ADOC_HEADING.sub(lambda found: f"{'#' * len(found[1])} {found[2]}", text)
    text = _ADOC_LIST.sub(lambda found: "  " * (len(found[1]) - 1) + ("- " if found[1][0] == "*" else "1. "), text)
    return _titled(_ADOC_LINK.sub(lambda found: found[2], text), stem)


def _adoc_table(body: str) -> str:
    """A table by as many columns as its first row has cells."""
    lines = [line for line in body.split("\n") if line.strip()]
    if not lines:
        return ""
    width = max(1, len(_ADOC_CELL.split(lines[0])) - 1)
    cells = [" ".join(cell.split()) for cell in _ADOC_CELL.split("\n".join(lines))[1:]]
    return "\n" + markdown_table([cells[first : first + width] for first in range(0, len(cells), width)])


def _titled(text: str, stem: str) -> LoadedDocument:
    from retriever.parsing.formats import markdown_title

    return LoadedDocument(title=markdown_title(text) or stem, text=text, kind="markdown")
