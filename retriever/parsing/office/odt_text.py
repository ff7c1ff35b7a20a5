"""OpenDocument texts → Markdown, by odfdo (Apache-2.0)."""

from __future__ import annotations

import io
import re

from odfdo import Document

from retriever.dates import iso_date
from retriever.parsing.office.package import opened
from retriever.types import LoadedDocument

_PADDING = re.compile(r"-{4,}(?=\|)|(?<=\S) {2,}(?=\|)|(?<=\|) {2,}(?=\|)")
"""What makes a table's columns equally wide."""


def read_odt(data: bytes, stem: str) -> LoadedDocument:
    """The document's text. Its title is that of its properties, else `stem`."""
    opened(data)
    document = Document(io.BytesIO(data))
    date = document.meta.date
    return LoadedDocument(
        title=document.meta.title or stem,
        text=_PADDING.sub(lambda found: "---" if "-" in found[0] else " ", document.to_markdown()),
        kind="markdown",
        date=iso_date(date.isoformat()) if date else None,
    )
