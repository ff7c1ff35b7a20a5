"""Text of documents inside the text of a result: its lines are marked, so none can pose as the result's. Pure."""

from __future__ import annotations

from collections.abc import Iterable

MARK = "> "


def quoted(text: str) -> str:
    """A text with `> ` before each of its lines, whatever ends them."""
    return "\n".join(f"{MARK}{line}" for line in text.strip().splitlines())


def one_line(text: str) -> str:
    """A title, a name or an id of a document, on one line."""
    return " ".join(text.split())


def place(collection: str, document_id: str, start: int, end: int) -> str:
    """Where a text is: what `read_passage` takes."""
    return f"collection {collection}, document {one_line(document_id)}, characters {start}-{end}"


def heading(title: str, heading: str | None, page: int | None, date: str | None) -> str:
    """How a person finds the text: the document's title, then heading, page and date where it has them."""
    title, heading = one_line(title), one_line(heading or "")
    named = heading if heading.startswith(title) else f"{title} > {heading}" if heading else title
    return ", ".join([named, *([f"page {page}"] if page is not None else []), *([date] if date else [])])


def lines(parts: Iterable[str]) -> str:
    """The parts that are not empty, one a line."""
    return "\n".join(part for part in parts if part)
