"""JSON, JSON lines and notebooks → Markdown."""

from __future__ import annotations

import json
import re
from typing import Any

from retriever.errors import UnreadableDocument
from retriever.parsing.formats import markdown_title
from retriever.parsing.text import clean, decode
from retriever.types import LoadedDocument

MAX_DEPTH = 100
_LEVELS = frozenset("123456")
_BACKTICKS = re.compile("`{3,}")


def read_json(data: bytes, stem: str) -> LoadedDocument:
    """An outline: each value with its name; the objects of a list one after the other. Raises UnreadableDocument."""
    hint = "; if each line is a value, give it the ending .jsonl"
    return LoadedDocument(title=stem, text=_text(_loaded(decode(data), hint=hint)), kind="markdown")


def read_json_lines(data: bytes, stem: str) -> LoadedDocument:
    """As `read_json`, of the objects on the lines. Raises UnreadableDocument."""
    parts = []
    for number, line in enumerate(decode(data).split("\n"), start=1):
        if line.strip():
            parts.append(_text(_loaded(line, f"line {number}: ")))
    return LoadedDocument(title=stem, text="\n\n".join(parts), kind="markdown")


def read_notebook(data: bytes, stem: str) -> LoadedDocument:
    """A notebook's texts and its code, without what the code printed; of format 3 or later.

    Its title is that of its metadata, else its first heading, else `stem`. Raises UnreadableDocument.
    """
    book = _loaded(decode(data))
    cells = _cells(book)
    if cells is None:
        raise UnreadableDocument("this is not a notebook of Jupyter; save it again there")
    metadata = _object(book.get("metadata"))
    language = str(_object(metadata.get("language_info")).get("name") or "")
    parts = []
    texts = []
    for cell in cells:
        source = cell.get("source", cell.get("input", ""))
        text = source if isinstance(source, str) else "".join(map(str, source))
        if not text.strip():
            continue
        if cell.get("cell_type") == "code":
            longest = max((len(run) for run in _BACKTICKS.findall(text)), default=2)
            fence = "`" * (longest + 1)
            parts.append(f"{fence}{language or cell.get('language', '')}\n{text}\n{fence}")
            continue
        if cell.get("cell_type") == "heading":
            level = str(cell.get("level"))
            text = f"{'#' * (int(level) if level in _LEVELS else 1)} {' '.join(text.split())}"
        parts.append(text)
        texts.append(text)
    title = metadata.get("title") or metadata.get("name")
    return LoadedDocument(
        title=(title if isinstance(title, str) else "") or markdown_title("\n\n".join(texts)) or stem,
        text="\n\n".join(parts),
        kind="markdown",
    )


def _cells(book: Any) -> list[dict[str, Any]] | None:
    """The cells of a notebook, those of format 3 in its worksheets; None if it is none."""
    sheets = [book] if isinstance(book, dict) else []
    if sheets and isinstance(book.get("worksheets"), list):
        sheets = book["worksheets"]
    lists = [sheet["cells"] for sheet in map(_object, sheets) if isinstance(sheet.get("cells"), list)]
    return [cell for cells in lists for cell in cells if isinstance(cell, dict)] if lists else None


def _object(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


class _Number(str):
    """A number as it is written: 1.50 is not 1.5, and it may have any number of digits."""


def _loaded(text: str, place: str = "", hint: str = "") -> Any:
    try:
        return json.loads(text, parse_float=_Number, parse_int=_Number)
    except json.JSONDecodeError as error:
        where = f"{error.msg} (line {error.lineno}, column {error.colno})"
        raise UnreadableDocument(f"this is not valid JSON: {place}{where}{hint}") from None
    except RecursionError:
        raise UnreadableDocument("the JSON is nested too deep; flatten it") from None


def _text(value: Any) -> str:
    if isinstance(value, list) and any(isinstance(one, dict) for one in value):
        return "\n\n".join("\n".join(_outline(one, 0, [])) for one in value)
    return "\n".join(_outline(value, 0, []))


def _outline(value: Any, depth: int, lines: list[str]) -> list[str]:
    """`lines`, and after them those of the value as a list of Markdown."""
    if depth > MAX_DEPTH:
        raise UnreadableDocument("the JSON is nested too deep; flatten it")
    indent = "  " * max(0, depth - 1)
    if isinstance(value, dict):
        for key, one in value.items():
            start, name = f"{indent}- " if depth else "", " ".join(key.split())
            if isinstance(one, dict | list) and one:
                lines.append(f"{start}{name}:")
                _outline(one, depth + 1, lines)
            else:
                lines.append(f"{start}{name}: {_scalar(one, indent)}".replace(": \n", ":\n", 1))
        return lines
    if isinstance(value, list):
        for one in value:
            if isinstance(one, dict | list) and one:
                lines.append(f"{indent}-")
                _outline(one, depth + 1, lines)
            else:
                lines.append(f"{indent}- {_scalar(one, indent)}".replace("- \n", "-\n", 1))
        return lines
    lines.append(f"{indent}{_scalar(value, indent)}")
    return lines


def _scalar(value: Any, indent: str) -> str:
    """A value; the lines of a text below each other, so that they are neither headings nor parts of the outline."""
    if not isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    lines = clean(value).strip().split("\n")
    if len(lines) == 1:
        return " ".join(value.split())
    return "\n".join(["", *(f"{indent}      {line}".rstrip() for line in lines)])
