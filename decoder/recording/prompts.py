"""Benchmark items: JSONL files read, checked and selected. Knows the file format; knows no model and no tokenizer.

One JSON object a line with `id`, `benchmark`, `category`, `turns` (the user's messages in order) and `context` (the
passages of a RAG item in order, else null); where `meta` holds an `input` that stands in the first message, it is the
text under edit. Other fields are left alone.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

T = TypeVar("T")


class BenchError(ValueError):
    """A benchmark cannot run as asked; the message says what to do."""


RAG_REQUEST = (
    "Answer the question with the passages below. Keep to their words where they hold the answer, and say so where "
    "they do not.\n\n{passages}\n\nQuestion: {question}"
)
"""First message of a RAG item. Changing a word changes every recorded output."""
RAG_PASSAGE = "Passage {number}:\n{text}"
RAG_ORIGINAL = frozenset({"spec_bench"})
"""Benchmarks whose own wording is kept: passages and question, joined by newlines."""


@dataclass(frozen=True, slots=True)
class Item:
    """One benchmark item. `turns` holds at least one message; `passages` is empty outside RAG, `edited` (a part of the
    first message) outside edits."""

    id: str
    benchmark: str
    category: str
    turns: tuple[str, ...]
    passages: tuple[str, ...] = ()
    edited: str = ""

    @property
    def characters(self) -> int:
        """Code points of all messages and passages."""
        return sum(map(len, self.turns)) + sum(map(len, self.passages))

    def messages(self) -> list[str]:
        """The user's messages in order, the passages put into the first."""
        if not self.passages:
            return list(self.turns)
        if self.benchmark in RAG_ORIGINAL:
            first = "\n".join((*self.passages, self.turns[0]))
        else:
            passages = "\n\n".join(RAG_PASSAGE.format(number=i, text=text) for i, text in enumerate(self.passages, 1))
            first = RAG_REQUEST.format(passages=passages, question=self.turns[0])
        return [first, *self.turns[1:]]


def load_items(
    files: Iterable[Path],
    *,
    limit: int | None = None,
    categories: Iterable[str] = (),
    max_chars: int | None = None,
) -> list[Item]:
    """Read items and select some of them.

    Args:
        files: JSONL files.
        limit: items per (benchmark, category). They are spread evenly over the category, and a larger limit keeps
            those of a smaller one.
        categories: `category` or `benchmark/category`; all where empty.
        max_chars: items with more characters than this are left out before the limit counts.

    Returns:
        items in rounds: the first of every category, then the second of every category, and so on, so that a run
        that is cut short has seen all of them.

    Raises:
        BenchError: a file or field is missing, a line is no JSON, an id occurs twice, a category is unknown, or
            nothing is left.
    """
    if limit is not None and limit < 1:
        raise BenchError(f"--limit must be at least 1, got {limit}")
    items = [_item(*found) for path in files for found in read_fields(path)]
    _check_ids(items)
    wanted = set(categories)
    unknown = wanted - {item.category for item in items} - {f"{item.benchmark}/{item.category}" for item in items}
    if unknown:
        known = sorted({f"{item.benchmark}/{item.category}" for item in items})
        raise BenchError(f"no item has the category {', '.join(sorted(unknown))}; there are {', '.join(known)}")
    groups: dict[tuple[str, str], list[Item]] = {}
    for item in items:
        named = not wanted or item.category in wanted or f"{item.benchmark}/{item.category}" in wanted
        if named and (max_chars is None or item.characters <= max_chars):
            groups.setdefault((item.benchmark, item.category), []).append(item)
    if not groups:
        raise BenchError("no item is left; give more files, more categories or a larger --max-chars")
    rounds = [spread(group)[:limit] for group in groups.values()]
    return [group[i] for i in range(max(map(len, rounds))) for group in rounds if i < len(group)]


def spread(items: Sequence[T]) -> list[T]:
    """All items in an order whose every beginning is spread evenly over them (bit-reversed numbering)."""
    bits = max(len(items) - 1, 0).bit_length()

    def reversed_bits(number: int) -> int:
        return int(f"{number:0{bits}b}"[::-1], 2) if bits else 0

    return [items[i] for i in sorted(range(len(items)), key=reversed_bits)]


def read_fields(path: Path) -> list[tuple[str, dict[str, Any]]]:
    """Where each item of a JSONL file stands, and its fields: `id`, `benchmark`, `turns` and `context` are as they
    should be, others as they come.

    Raises:
        BenchError: there is no file, or a line is no such item.
    """
    if not path.is_file():
        raise BenchError(f"there is no file {path}; give JSONL files of benchmark items with --data")
    lines = path.read_text(encoding="utf-8").split("\n")  # a string may hold other ends of lines
    places = [(f"{path.name}, line {number}", line) for number, line in enumerate(lines, 1) if line.strip()]
    return [(where, _fields(line, where)) for where, line in places]


def _fields(line: str, where: str) -> dict[str, Any]:
    try:
        fields = json.loads(line)
    except json.JSONDecodeError as error:
        raise BenchError(f"{where} is not JSON ({error.msg}); each line must be one JSON object") from None
    if not isinstance(fields, dict):
        raise BenchError(f"{where} is not a JSON object; each line must be one")
    _check_named(fields, ("id", "benchmark"), where)
    if not _texts(fields.get("turns")) or not fields["turns"]:
        raise BenchError(f"{where} has no turns; they must be a list of one or more strings")
    if fields.get("context") is not None and not _texts(fields["context"]):
        raise BenchError(f"{where} has a bad context; it must be null or a list of strings, one a passage")
    return fields


def _item(where: str, fields: dict[str, Any]) -> Item:
    _check_named(fields, ("category",), where)
    passages = fields.get("context") or ()
    turns = tuple(fields["turns"])
    meta = fields.get("meta")
    edited = meta.get("input") if isinstance(meta, dict) else None
    if not isinstance(edited, str) or edited not in turns[0]:
        edited = ""
    return Item(fields["id"], fields["benchmark"], fields["category"], turns, tuple(passages), edited)


def _check_named(fields: dict[str, Any], names: Iterable[str], where: str) -> None:
    for name in names:
        if not isinstance(fields.get(name), str) or not fields[name]:
            raise BenchError(f"{where} has no {name}; it must be a non-empty string")


def _texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(text, str) for text in value)


def _check_ids(items: Iterable[Item]) -> None:
    seen: set[str] = set()
    for item in items:
        if item.id in seen:
            raise BenchError(f"the id {item.id} occurs twice; give each file once, with unique ids")
        seen.add(item.id)
