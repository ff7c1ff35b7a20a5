"""A file on disk → text with its title, structure kind and pages.

Knows the supported formats and which reader serves each. Runs wherever it is called: reading untrusted files behind
limits is `loading`'s work. Imports no torch; a format's parser is imported on first use.
"""

from __future__ import annotations

import re
import stat
from collections.abc import Callable
from pathlib import Path, PurePath

from retriever.chunking import front_matter
from retriever.errors import UnreadableDocument, UnsupportedFormat
from retriever.parsing.text import decode
from retriever.types import LoadedDocument

SUPPORTED = (
    ".md", ".markdown", ".html", ".htm", ".xhtml", ".pdf", ".txt", ".text", ".rst", ".adoc", ".asciidoc",
)  # fmt: skip
"""Endings of the files that can be read, in lower case."""

_FIRST_HEADING = re.compile(r"^ {0,3}#{1,2}[ \t]+(\S.*)$", re.MULTILINE)


def supported_formats() -> str:
    """The supported endings, as error messages name them."""
    return ", ".join(SUPPORTED)


def load_file(path: Path, name: str | None = None, *, max_bytes: int = 100_000_000) -> LoadedDocument:
    """Read the file at `path` as the format that `name` (default: the path) ends in.

    Raises UnsupportedFormat or UnreadableDocument, each with a reason that names what to do.
    """
    shown = name or path.name
    ending = PurePath(shown).suffix.lower()
    reader = _READERS.get(ending)
    if reader is None:
        raise UnsupportedFormat(
            f"{ending or 'a file without an ending'} is not supported; supported formats: {supported_formats()}"
        )
    data = read_bytes(path, max_bytes)
    if not data.strip(b"\0\t\n\r "):
        raise UnreadableDocument("the file is empty")
    loaded = reader(data, PurePath(shown).stem)
    if not loaded.text.strip():
        raise UnreadableDocument("no text found in the file")
    return loaded


def markdown_title(text: str) -> str | None:
    """Title in the front matter, else the first heading of level 1 or 2; None without either."""
    from retriever.chunking.blocks import plain_heading

    if titled := front_matter.title(text):
        return titled
    heading = _FIRST_HEADING.search(text, front_matter.end(text))
    return (plain_heading(heading[1]) or None) if heading else None


def read_bytes(path: Path, max_bytes: int) -> bytes:
    """The content of a regular file of at most `max_bytes`. Raises UnreadableDocument."""
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
        raise UnreadableDocument("the file is gone or was never there; check its path") from None
    except PermissionError:
        raise UnreadableDocument("the file may not be read; check its permissions") from None
    except OSError as error:
        raise UnreadableDocument(f"the file cannot be read: {error.strerror or error}") from None


def _markdown(data: bytes, stem: str) -> LoadedDocument:
    text = decode(data)
    return LoadedDocument(title=markdown_title(text) or stem, text=text, kind="markdown")


def _plain(data: bytes, stem: str) -> LoadedDocument:
    return LoadedDocument(title=stem, text=decode(data), kind="plain")


def _html(data: bytes, stem: str) -> LoadedDocument:
    from retriever.parsing.html_text import read_html

    return read_html(data, stem)


def _pdf(data: bytes, stem: str) -> LoadedDocument:
    from retriever.parsing.pdf_text import read_pdf

    return read_pdf(data, stem)


_READERS: dict[str, Callable[[bytes, str], LoadedDocument]] = {
    ".md": _markdown,
    ".markdown": _markdown,
    ".html": _html,
    ".htm": _html,
    ".xhtml": _html,
    ".pdf": _pdf,
    ".txt": _plain,
    ".text": _plain,
    ".rst": _plain,
    ".adoc": _plain,
    ".asciidoc": _plain,
}
assert set(_READERS) == set(SUPPORTED)
