"""Benchmark items: reads, checks and selects JSONL files. Knows the file format; knows no model and no tokenizer.

Each line is a JSON object with `id`, `benchmark`, `category`, `turns` (the user's messages in order) and `context` (the
passages of a RAG item in order, else null). If `meta` has an `input` that the first message contains, it is the text
under edit. Other fields are ignored.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

T = TypeVar("T")


class BenchError(ValueError):
    """A benchmark cannot run with these arguments or files; the message says what to do."""


RAG_REQUEST = (
    "Answer the question with the passages below. Keep to their words where they hold the answer, and say so where "
    "they do not.\n\n{passages}\n\nQuestion: {question}"
)
"""First message of a RAG item. Changing a word changes every recorded answer."""
RAG_PASSAGE = "Passage {number}:\n{text}"
RAG_ORIGINAL = frozenset({"spec_bench"})
"""Benchmarks that keep their own wording: passages and question, joined by newlines."""


@dataclass(frozen=True, slots=True)
class Item:
    """One benchmark item.

    Attributes:
        turns: the user's messages, at least one.
        passages: empty outside RAG.
        edited: the text under edit, a part of the first message; empty outside edits.
    """

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
        """The user's messages in order, with the passages in the first."""
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
        limit: items per (benchmark, category), spread evenly over the category. A larger limit includes the items of
            a smaller one.
        categories: `category` or `benchmark/category`; empty for all.
        max_chars: items with more characters are skipped before the limit counts.

    Returns:
        items in rounds: the first of every category, then the second of every category, and so on, so that an
        interrupted run has seen all categories.

    Raises:
        BenchError: a file or field is missing, a line is not JSON, an id occurs twice, a category is unknown, or no
            item remains.
    """
    if limit is not None and limit < 1:
        raise BenchError(f"--limit must be at least 1, got {limit}")
    items = [_item(*line) for path in files for line in read_fields(path)]
    if (repeated := first_repeated(item.id for item in items)) is not None:
        raise BenchError(f"the id {repeated} occurs twice; give each file once, with unique ids")
    selected = set(categories)
    unknown = selected - {item.category for item in items} - {f"{item.benchmark}/{item.category}" for item in items}
    if unknown:
        known = sorted({f"{item.benchmark}/{item.category}" for item in items})
        raise BenchError(f"no item has the category {', '.join(sorted(unknown))}; there are {', '.join(known)}")
    groups: dict[tuple[str, str], list[Item]] = {}
    for item in items:
        names = {item.category, f"{item.benchmark}/{item.category}"}
        if (not selected or selected & names) and (max_chars is None or item.characters <= max_chars):
            groups.setdefault((item.benchmark, item.category), []).append(item)
    if not groups:
        raise BenchError("no item is left; give more files, more categories or a larger --max-chars")
    rounds = [spread(group)[:limit] for group in groups.values()]
    return [group[i] for i in range(max(map(len, rounds))) for group in rounds if i < len(group)]


def spread(items: Sequence[T]) -> list[T]:
    """All items in an order whose every prefix is spread evenly over them (bit-reversed numbering)."""
    bits = max(len(items) - 1, 0).bit_length()

    def reversed_bits(number: int) -> int:
        return int(f"{number:0{bits}b}"[::-1], 2) if bits else 0

    return [items[i] for i in sorted(range(len(items)), key=reversed_bits)]


def first_repeated(values: Iterable[T]) -> T | None:
    """The first value that occurred before; None if all values differ."""
    seen: set[T] = set()
    for value in values:
        if value in seen:
            return value
        seen.add(value)
    return None


def read_fields(path: Path) -> list[tuple[str, dict[str, Any]]]:
    """(file and line number, fields) of each item of a JSONL file.

    `id`, `benchmark`, `turns` and `context` are checked, other fields are not.

    Raises:
        BenchError: there is no file, or a line is not such an item.
    """
    if not path.is_file():
        raise BenchError(f"there is no file {path}; give JSONL files of benchmark items with --data")
    lines = path.read_text(encoding="utf-8").split("\n")  # strings may contain other line ends
    numbered = [(f"{path.name}, line {number}", line) for number, line in enumerate(lines, 1) if line.strip()]
    return [(where, _fields(line, where)) for where, line in numbered]


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
        raise BenchError(f"{where} has a bad context; it must be null or a list of strings, one per passage")
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
