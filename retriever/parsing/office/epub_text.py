"""E-books → Markdown: the chapters in the order of the book's spine, each read like a web page."""

from __future__ import annotations

import posixpath
from typing import Any
from urllib.parse import unquote

from retriever.dates import iso_date
from retriever.errors import UnreadableDocument
from retriever.parsing.html_text import body
from retriever.parsing.office.package import opened, xml
from retriever.parsing.text import decode
from retriever.types import LoadedDocument

_BETWEEN = "\n\n"
_PAGES = ("application/xhtml+xml", "text/html")


def read_epub(data: bytes, stem: str) -> LoadedDocument:
    """The book's text. Its title is that of its metadata, else `stem`. Raises UnreadableDocument."""
    package = opened(data, ".epub")
    container = xml(package, "META-INF/container.xml")
    rootfile = None if container is None else container.find(".//{*}rootfile")
    opf = "" if rootfile is None else rootfile.get("full-path", "")
    book = xml(package, opf)
    if book is None:
        raise UnreadableDocument("the e-book has no list of its chapters; save it again")
    items = {one.get("id"): one for one in book.iterfind("{*}manifest/{*}item")}
    places = dict.fromkeys(one.get("idref") for one in book.iterfind("{*}spine/{*}itemref"))  # each once
    order = [items[place] for place in places if place in items]
    chapters: list[str] = []
    navigation: list[tuple[int, int]] = []
    place = 0
    for item in order:
        if item.get("media-type") in _PAGES and "nav" not in (item.get("properties") or "").split():
            name = posixpath.normpath(posixpath.join(posixpath.dirname(opf), unquote(item.get("href", ""))))
            if name in package.namelist():
                chapter, links = body(decode(package.read(name)))
                if chapter:
                    chapters.append(chapter)
                    navigation += [(place + start, place + end) for start, end in links]
                    place += len(chapter) + len(_BETWEEN)
    title = _first(book, "title")
    return LoadedDocument(
        title=title or stem,
        text=_BETWEEN.join(chapters),
        kind="markdown",
        date=iso_date(_first(book, "date")),
        navigation=tuple(navigation),
    )


def _first(book: Any, name: str) -> str | None:
    found = book.find(f"{{*}}metadata/{{http://purl.org/dc/elements/1.1/}}{name}")
    return None if found is None else " ".join((found.text or "").split()) or None
