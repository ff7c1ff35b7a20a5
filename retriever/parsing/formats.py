"""A file on disk → text with its title, structure kind and pages.

Knows the supported formats and the reader of each. Runs in the calling process: `file_reader` reads untrusted files
under limits. Imports no torch; a format's parser is imported on first use.
"""

from __future__ import annotations

import importlib
import re
import stat
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path, PurePath

from retriever.chunking import front_matter
from retriever.errors import UnreadableDocument, UnsupportedFormat
from retriever.parsing.ocr import Recogniser
from retriever.parsing.text import clean, decode
from retriever.types import LoadedDocument

Reader = Callable[[bytes, str], LoadedDocument]
"""From a file's content and its name without ending. Raises UnreadableDocument."""
_OLDER = {".doc": ".docx", ".xls": ".xlsx", ".ppt": ".pptx", ".msg": ".eml", ".rtf": ".docx"}
_FIRST_HEADING = re.compile(r"^ {0,3}#{1,2}[ \t]+(\S.*)$", re.MULTILINE)

TITLE_CHARS = 80
"""Most characters of a plain text's first line that is its title."""
_TITLE_LINE = re.compile(r"\s*(?=.*[^\W\d_])([^\W_].{0,200}[^\s.,;:!?…])[ \t]*\n[=*~ \t-]*\n\s*\S")


def load_file(
    path: Path, name: str | None = None, *, max_bytes: int = 100_000_000, recogniser: Recogniser | None = None
) -> LoadedDocument:
    """Read the file at `path`; the ending of `name` (default: of the path) decides the format.

    `recogniser` reads the pages of scans. Without one, a PDF most of whose pages are scans is read as far as it goes.
    Raises UnsupportedFormat or UnreadableDocument; the reason says what to do.
    """
    shown = name or path.name
    ending = PurePath(shown).suffix.lower()
    reader = _READERS.get(ending)
    if reader is None:
        if newer := _OLDER.get(ending):
            raise UnsupportedFormat(f"{ending} is not supported; save the file as {newer}")
        raise UnsupportedFormat(
            f"{ending or 'a file without an ending'} is not supported; supported formats: {', '.join(SUPPORTED)}"
        )
    data = read_bytes(path, max_bytes)
    if not data.strip(b"\0\t\n\r "):
        raise UnreadableDocument("the file is empty")
    if ending == ".pdf" and recogniser is not None:
        from retriever.parsing.pdf_text import read_pdf

        reader = partial(read_pdf, recognise=recogniser)
    loaded = reader(data, PurePath(shown).stem)
    loaded = replace(loaded, title=clean(loaded.title), text=clean(loaded.text))
    if not loaded.text.strip():
        raise UnreadableDocument("no text found in the file")
    return loaded


def plain_title(text: str) -> str | None:
    """The first line of a text without markup if it looks like a title: it is short, stands alone above an empty or an
    underlining line, and ends as no sentence does. None for others."""
    found = _TITLE_LINE.match(text)
    return found[1].strip() if found and len(found[1].strip()) <= TITLE_CHARS else None


def markdown_title(text: str) -> str | None:
    """The front matter's title, else the first heading of level 1 or 2; None without either."""
    from retriever.chunking.blocks import plain_heading

    if title := front_matter.title(text):
        return title
    heading = _FIRST_HEADING.search(text, front_matter.end(text))
    return (plain_heading(heading[1]) or None) if heading else None


def read_bytes(path: Path, max_bytes: int) -> bytes:
    """The content of a regular file of at most `max_bytes` bytes. Raises UnreadableDocument."""
    try:
        info = path.stat()
        if not stat.S_ISREG(info.st_mode):
            raise UnreadableDocument("this is not a regular file")
        if info.st_size > max_bytes:
            raise UnreadableDocument(
                f"the file has {info.st_size / 1e6:.0f} MB, more than the {max_bytes / 1e6:.0f} MB allowed; split it"
            )
        return path.read_bytes()
    except FileNotFoundError:
        raise UnreadableDocument("the file does not exist; check its path") from None
    except PermissionError:
        raise UnreadableDocument("the file is not readable; check its permissions") from None
    except OSError as error:
        raise UnreadableDocument(f"the file cannot be read: {error.strerror or error}") from None


def _markdown(data: bytes, stem: str) -> LoadedDocument:
    text = decode(data)
    title = markdown_title(text) or stem
    return LoadedDocument(title=title, text=text, kind="markdown", date=front_matter.date(text))


def _plain(data: bytes, stem: str) -> LoadedDocument:
    text = decode(data)
    return LoadedDocument(title=plain_title(text) or stem, text=text, kind="plain")


def _by(module: str, reader: str) -> Reader:
    """A format's reader, imported when the first such file is read."""

    def read(data: bytes, stem: str) -> LoadedDocument:
        loaded: LoadedDocument = getattr(importlib.import_module(f"retriever.parsing.{module}"), reader)(data, stem)
        return loaded

    return read


_READERS: dict[str, Reader] = {
    **dict.fromkeys((".md", ".markdown"), _markdown),
    **dict.fromkeys((".txt", ".text"), _plain),
    **dict.fromkeys((".html", ".htm", ".xhtml"), _by("html_text", "read_html")),
    ".pdf": _by("pdf_text", "read_pdf"),
    ".docx": _by("office.docx_text", "read_docx"),
    ".pptx": _by("office.pptx_text", "read_pptx"),
    ".xlsx": _by("office.xlsx_text", "read_xlsx"),
    ".odt": _by("office.odt_text", "read_odt"),
    ".epub": _by("office.epub_text", "read_epub"),
    ".csv": _by("tables", "read_separated"),
    ".tsv": _by("tables", "read_tab_separated"),
    ".json": _by("json_text", "read_json"),
    **dict.fromkeys((".jsonl", ".ndjson"), _by("json_text", "read_json_lines")),
    ".ipynb": _by("json_text", "read_notebook"),
    ".eml": _by("email_text", "read_email"),
    ".rst": _by("markup.rst_text", "read_rst"),
    **dict.fromkeys((".adoc", ".asciidoc"), _by("markup.asciidoc_text", "read_asciidoc")),
}
SUPPORTED = tuple(_READERS)
"""Endings of the files that can be read, in lower case."""
