"""Rows → a Markdown table; and files of separated values."""

from __future__ import annotations

import csv
import io
from bisect import bisect_left
from collections.abc import Sequence

from retriever.parsing.text import decode
from retriever.types import LoadedDocument

FILLED_COLUMNS = 100
"""Rows are padded to the table's width, up to this many columns: rows times columns may be far more than the file."""
_SEPARATORS = ",;\t|"


def markdown_table(rows: Sequence[Sequence[str]]) -> str:
    """The rows as a table whose first row is its header, without empty rows and columns; empty if nothing is left.

    Rows of a single cell at the top are the table's labels, and stand above it.
    """
    lines = [[" ".join(cell.replace("|", "\\|").split()) for cell in row] for row in rows]
    lines = [line for line in lines if any(line)]
    kept = sorted({n for line in lines for n, cell in enumerate(line) if cell})
    lines = [[line[n] for n in kept[: bisect_left(kept, len(line))]] for line in lines]
    lines = [line + [""] * (min(len(kept), FILLED_COLUMNS) - len(line)) for line in lines]
    if not lines:
        return ""
    labels = 0
    while labels < len(lines) - 2 and _is_label(lines[labels]):
        labels += 1
    above = "".join(f"{next(filter(None, line))}\n\n" for line in lines[:labels])
    header, *body = lines[labels:]
    return above + "\n".join(f"| {' | '.join(line)} |" for line in [header, ["---"] * len(kept), *body])


def _is_label(line: Sequence[str]) -> bool:
    """Whether a row has a single cell; of two columns it must be the first, else it is the header of the second."""
    return len(line) > 1 and sum(map(bool, line)) == 1 and (len(line) > 2 or bool(line[0]))


def read_separated(data: bytes, stem: str) -> LoadedDocument:
    """Values separated by the sign that the first lines use: comma, semicolon, tab or bar."""
    text = decode(data)
    try:
        found = csv.Sniffer().sniff(text[:10_000], _SEPARATORS)
    except csv.Error:
        return _table(text, stem, ",")
    quote = '"' if '"' in text else found.quotechar or '"'
    return _table(text, stem, found.delimiter, quote, found.skipinitialspace)


def read_tab_separated(data: bytes, stem: str) -> LoadedDocument:
    """Values separated by tabs."""
    return _table(decode(data), stem, "\t")


def allow_fields_of(characters: int) -> None:
    """Let `csv` read fields so long. The limit is that of the whole process, where others read too: never lower it."""
    csv.field_size_limit(max(csv.field_size_limit(), characters + 1))


def _table(text: str, stem: str, separator: str, quote: str = '"', spaces: bool = False) -> LoadedDocument:
    allow_fields_of(len(text))
    rows = list(csv.reader(io.StringIO(text), delimiter=separator, quotechar=quote, skipinitialspace=spaces))
    return LoadedDocument(title=stem, text=markdown_table(rows), kind="markdown")
