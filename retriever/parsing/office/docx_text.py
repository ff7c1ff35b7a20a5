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
from retriever.parsing.office.formulas import MATH, with_formulas_as_text
from retriever.parsing.office.package import opened, properties, safe_parser
from retriever.types import LoadedDocument

_STRICT = {
    b"http://purl.oclc.org/ooxml/wordprocessingml/main": b"http://schemas.openxmlformats.org/wordprocessingml/2006/main",
    b"http://purl.oclc.org/ooxml/officeDocument/relationships": (
        b"http://schemas.openxmlformats.org/officeDocument/2006/relationships"
    ),
    b"http://purl.oclc.org/ooxml/officeDocument/math": MATH.encode(),
}
"""Namespaces of "Strict Open XML", and those that mammoth knows."""
_WITH_FORMULAS = ("word/document.xml", "word/footnotes.xml", "word/endnotes.xml")
_STYLES = "p[style-name='Title'] => h1:fresh\np[style-name='Subtitle'] => p:fresh"


def read_docx(data: bytes, stem: str) -> LoadedDocument:
    """The document's text. Its title is that of its properties, else its first title or top heading, else `stem`."""
    package = opened(data)
    found = properties(package)
    page = mammoth.convert_to_html(
        io.BytesIO(_readable(package, data)), style_map=_STYLES, convert_image=mammoth.images.img_element(_nothing)
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


def _readable(package: zipfile.ZipFile, data: bytes) -> bytes:
    """The file with the namespaces that mammoth knows, and formulas as text, which it would leave out."""
    strict = b"purl.oclc.org" in package.read("word/document.xml")
    changed = {}
    for entry in package.infolist():
        content = package.read(entry) if strict and entry.filename.endswith((".xml", ".rels")) else b""
        for own, known in _STRICT.items() if content else ():
            content = content.replace(own, known)
        if entry.filename in _WITH_FORMULAS and b"oMath" in (content or package.read(entry)):
            root = etree.fromstring(content or package.read(entry), safe_parser())
            if root is not None and with_formulas_as_text(root):
                content = etree.tostring(root, xml_declaration=True, encoding="UTF-8")
        if content:
            changed[entry.filename] = content
    if not changed:
        return data
    copied = io.BytesIO()
    with zipfile.ZipFile(copied, "w") as copy:
        for entry in package.infolist():
            copy.writestr(entry.filename, changed.get(entry.filename) or package.read(entry))
    return copied.getvalue()
