"""JSON, JSON lines and notebooks → Markdown."""

from __future__ import annotations

import json
from typing import Any

from retriever.errors import UnreadableDocument
from retriever.parsing.text import decode
from retriever.types import LoadedDocument

MAX_DEPTH = 100


def read_json(data: bytes, stem: str) -> LoadedDocument:
    """An outline: each value with its name; the objects of a list one after the other. Raises UnreadableDocument."""
    return LoadedDocument(title=stem, text=_text(_loaded(decode(data))), kind="markdown")


def read_json_lines(data: bytes, stem: str) -> LoadedDocument:
    """As `read_json`, of the objects on the lines. Raises UnreadableDocument."""
    parts = []
    for number, line in enumerate(decode(data).split("\n"), start=1):
        if line.strip():
            parts.append(_text(_loaded(line, f"line {number}: ")))
    return LoadedDocument(title=stem, text="\n\n".join(parts), kind="markdown")


def read_notebook(data: bytes, stem: str) -> LoadedDocument:
    """A notebook's texts and its code, without what the code printed. Raises UnreadableDocument."""
    book = _loaded(decode(data))
    if not isinstance(book, dict) or not isinstance(book.get("cells"), list):
        raise UnreadableDocument("this is not a notebook of version 4; save it again in Jupyter")
    language = str(book.get("metadata", {}).get("language_info", {}).get("name", ""))
    parts = []
    for cell in book["cells"]:
        source = cell.get("source", "")
        text = source if isinstance(source, str) else "".join(map(str, source))
        if not text.strip():
            continue
        parts.append(f"```{language}\n{text}\n```" if cell.get("cell_type") == "code" else text)
    return LoadedDocument(title=stem, text="\n\n".join(parts), kind="markdown")


def _loaded(text: str, place: str = "") -> Any:
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise UnreadableDocument(
            f"this is not valid JSON: {place}{error.msg} (line {error.lineno}, column {error.colno})"
        ) from None
    except RecursionError:
        raise UnreadableDocument("the JSON is nested too deep; flatten it") from None


def _text(value: Any) -> str:
    if isinstance(value, list) and any(isinstance(one, dict) for one in value):
        return "\n\n".join("\n".join(_outline(one, 0)) for one in value)
    return "\n".join(_outline(value, 0))


def _outline(value: Any, depth: int) -> list[str]:
    """Lines of a list of Markdown."""
    if depth > MAX_DEPTH:
        raise UnreadableDocument("the JSON is nested too deep; flatten it")
    indent = "  " * max(0, depth - 1)
    lines: list[str] = []
    if isinstance(value, dict):
        for name, one in value.items():
            start = f"{indent}- " if depth else ""
            if isinstance(one, dict | list) and one:
                lines += [f"{start}{name}:", *_outline(one, depth + 1)]
            else:
                lines.append(f"{start}{name}: {_scalar(one)}")
        return lines
    if isinstance(value, list):
        for one in value:
            if isinstance(one, dict | list) and one:
                lines += [f"{indent}-", *_outline(one, depth + 1)]
            else:
                lines.append(f"{indent}- {_scalar(one)}")
        return lines
    return [f"{indent}{_scalar(value)}"]


def _scalar(value: Any) -> str:
    return " ".join(value.split()) if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
