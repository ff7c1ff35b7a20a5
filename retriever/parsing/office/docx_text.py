"""Word documents → Markdown, by mammoth (BSD-2-Clause), which maps styles to headings, lists and tables.

Comments and images are left out; text boxes, footnotes and formulas are read.
"""

from __future__ import annotations

import io
import zipfile
from typing import Any

import mammoth
from lxml import etree
from selectolax.lexbor import LexborHTMLParser

from retriever.parsing.html_text import body
from retriever.parsing.office.formulas import with_formulas_as_text
from retriever.parsing.office.package import opened, properties, safe_parser, transitional
from retriever.types import LoadedDocument

_WITH_FORMULAS = ("word/document.xml", "word/footnotes.xml", "word/endnotes.xml")
_STYLES = "p[style-name='Title'] => h1:fresh\np[style-name='Subtitle'] => p:fresh"


def read_docx(data: bytes, stem: str) -> LoadedDocument:
    """The document's text. Its title is that of its properties, else its first title or top heading, else `stem`."""
    package = opened(data, ".docx")
    found = properties(package)
    readable = _readable(transitional(package, data, "word/document.xml"))
    page = mammoth.convert_to_html(
        io.BytesIO(readable), style_map=_STYLES, convert_image=mammoth.images.img_element(_nothing)
    ).value
    text, navigation = body(page)
    title = found.title or _heading(page) or stem
    return LoadedDocument(title, text, "markdown", date=found.date, navigation=navigation)


def _heading(page: str) -> str | None:
    """The text of the first `<h1>` with words, which the styles Title and Heading 1 become; None without one."""
    texts = (" ".join(heading.text().split()) for heading in LexborHTMLParser(page).css("h1"))
    return next(filter(None, texts), None)


def _nothing(_: Any) -> dict[str, str]:
    return {}


def _readable(data: bytes) -> bytes:
    """The file with formulas as text, which mammoth would leave out."""
    package = opened(data, ".docx")
    changed = {}
    for name in _WITH_FORMULAS:
        content = package.read(name) if name in package.namelist() else b""
        if b"oMath" in content:
            root = etree.fromstring(content, safe_parser())
            if root is not None and with_formulas_as_text(root):
                changed[name] = etree.tostring(root, xml_declaration=True, encoding="UTF-8")
    if not changed:
        return data
    copied = io.BytesIO()
    with zipfile.ZipFile(copied, "w") as copy:
        for entry in package.infolist():
            copy.writestr(entry.filename, changed.get(entry.filename) or package.read(entry))
    return copied.getvalue()
