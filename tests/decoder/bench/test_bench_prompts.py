"""Benchmark items: read, checked, selected, and put into words."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from decoder.recording.prompts import BenchError, Item, load_items, spread


def item(number: int, category: str = "writing", **fields: Any) -> dict[str, Any]:
    return {
        "id": f"{category}-{number}",
        "benchmark": "bench",
        "category": category,
        "turns": [f"Question {number}?"],
        "context": None,
    } | fields


def write(path: Path, *items: dict[str, Any]) -> Path:
    path.write_text("".join(json.dumps(fields) + "\n" for fields in items), encoding="utf-8")
    return path


def test_reads_all_fields(tmp_path: Path) -> None:
    path = write(tmp_path / "a.jsonl", item(1, turns=["One?", "Two?"], reference="x", meta={}))
    assert load_items([path]) == [Item("writing-1", "bench", "writing", ("One?", "Two?"))]


def test_the_text_under_edit_is_a_part_of_the_message(tmp_path: Path) -> None:
    values: list[Any] = [{"input": "One"}, {"input": "Two"}, {"input": 1}, None]
    path = write(tmp_path / "a.jsonl", *(item(at, turns=["Mend: One"], meta=meta) for at, meta in enumerate(values)))
    assert [read.edited for read in load_items([path])] == ["One", "", "", ""]


def test_a_line_ends_at_a_line_feed_alone(tmp_path: Path) -> None:
    """Texts may hold other characters that Python takes for ends of lines; JSON allows them as they are."""
    question = "One\u2028two\x85three?"
    path = tmp_path / "a.jsonl"
    path.write_text(json.dumps(item(1, turns=[question]), ensure_ascii=False) + "\n", encoding="utf-8")
    assert load_items([path])[0].turns == (question,)


def test_passages_come_before_the_question_in_order() -> None:
    first, second = Item("a", "squad2", "answerable", ("Who?", "Why?"), ("Alpha.", "Beta.")).messages()
    assert first.index("Passage 1:\nAlpha.") < first.index("Passage 2:\nBeta.") < first.index("Question: Who?")
    assert second == "Why?"


def test_spec_bench_keeps_its_own_wording() -> None:
    assert Item("a", "spec_bench", "rag", ("Who?",), ("Alpha.", "Beta.")).messages() == ["Alpha.\nBeta.\nWho?"]


def test_limit_counts_per_category_and_rounds_alternate(tmp_path: Path) -> None:
    path = write(tmp_path / "a.jsonl", *(item(n, c) for c in ("qa", "rag") for n in range(8)))
    chosen = [i.id for i in load_items([path], limit=2)]
    assert chosen == ["qa-0", "rag-0", "qa-4", "rag-4"]
    assert set(chosen) < {i.id for i in load_items([path], limit=3)}


@pytest.mark.parametrize("size", [0, 1, 2, 3, 7, 8, 100])
def test_spread_is_a_permutation(size: int) -> None:
    items = [Item(str(n), "b", "c", ("t",)) for n in range(size)]
    order = [int(i.id) for i in spread(items)]
    assert sorted(order) == list(range(size))
    assert size < 8 or max(order[:4]) >= size // 2 > min(order[:4])


def test_categories_and_max_chars_select(tmp_path: Path) -> None:
    path = write(tmp_path / "a.jsonl", item(1), item(2, "qa"), item(3, "qa", turns=["x" * 100]))
    assert [i.id for i in load_items([path], categories=["bench/qa"], max_chars=50)] == ["qa-2"]
    assert [i.id for i in load_items([path], categories=["writing"])] == ["writing-1"]
    with pytest.raises(BenchError, match=r"category poetry; there are bench/qa, bench/writing"):
        load_items([path], categories=["poetry"])
    with pytest.raises(BenchError, match="no item is left"):
        load_items([path], max_chars=1)
    with pytest.raises(BenchError, match="at least 1"):
        load_items([path], limit=0)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", "line 2 is not JSON"),
        ("[]", "line 2 is not a JSON object"),
        (json.dumps(item(1) | {"id": ""}), "line 2 has no id"),
        (json.dumps(item(1) | {"category": 3}), "line 2 has no category"),
        (json.dumps(item(1) | {"turns": []}), "line 2 has no turns"),
        (json.dumps(item(1) | {"turns": "text"}), "line 2 has no turns"),
        (json.dumps(item(1) | {"context": "text"}), "line 2 has a bad context"),
        (json.dumps(item(0)), "writing-0 occurs twice"),
    ],
)
def test_bad_lines_are_told_by_number(tmp_path: Path, line: str, message: str) -> None:
    path = write(tmp_path / "a.jsonl", item(0))
    path.write_text(path.read_text() + line + "\n")
    with pytest.raises(BenchError, match=message):
        load_items([path])


def test_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(BenchError, match=r"no file .*nothing\.jsonl"):
        load_items([tmp_path / "nothing.jsonl"])
