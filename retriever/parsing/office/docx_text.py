"""Word documents → Markdown, by mammoth (BSD-2-Clause), which maps styles to headings, lists and tables.

Comments and images are left out; text boxes and footnotes are read.
"""

from __future__ import annotations

import io
import zipfile
from typing import Any

import mammoth

from retriever.parsing.html_text import body_text
from retriever.parsing.office.package import opened, properties
from retriever.types import LoadedDocument

_STRICT = {
    b"http://purl.oclc.org/ooxml/wordprocessingml/main": b"http://schemas.openxmlformats.org/wordprocessingml/2006/main",
    b"http://purl.oclc.org/ooxml/officeDocument/relationships": (
        b"http://schemas.openxmlformats.org/officeDocument/2006/relationships"
    ),
}
"""Namespaces of "Strict Open XML", and those that mammoth knows."""
_STYLES = "p[style-name='Title'] => h1:fresh\np[style-name='Subtitle'] => p:fresh"


def read_docx(data: bytes, stem: str) -> LoadedDocument:
    """The document's text. Its title is that of its properties, else `stem`."""
    package = opened(data)
    found = properties(package)
    page = mammoth.convert_to_html(
        io.BytesIO(_transitional(package, data)), style_map=_STYLES, convert_image=mammoth.images.img_element(_nothing)
    ).value
    return LoadedDocument(title=found.title or stem, text=body_text(page), kind="markdown", date=found.date)


def _nothing(_: Any) -> dict[str, str]:
    return {}


def _transitional(package: zipfile.ZipFile, data: bytes) -> bytes:
    """The file with the namespaces that mammoth knows."""
    if b"purl.oclc.org" not in package.read("word/document.xml"):
        return data
    changed = io.BytesIO()
    with zipfile.ZipFile(changed, "w") as copy:
        for entry in package.infolist():
            content = package.read(entry)
            if entry.filename.endswith((".xml", ".rels")):
                for strict, known in _STRICT.items():
                    content = content.replace(strict, known)
            copy.writestr(entry.filename, content)
    return changed.getvalue()
