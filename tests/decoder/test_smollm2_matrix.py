"""The decoding benchmark on SmolLM2-135M with the project's own items, as `rag bench decode` runs it. Counts only."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from decoder.bench.cli import run

pytestmark = [pytest.mark.full, pytest.mark.timeout(1800)]

ITEMS = Path(__file__).parents[2] / "benchmarks" / "items" / "items.jsonl"
MODES = ("casd", "pld:max_ngram=2", "auto", "hf:prompt_lookup=10")


@pytest.fixture(scope="module")
def result(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    out = tmp_path_factory.mktemp("matrix") / "result.json"
    arguments = ["decode", "--model", "smollm2-135m", "--data", str(ITEMS), "--limit", "2", "--max-tokens", "64"]
    assert run([*arguments, "--drafters", ",".join(MODES), "--json", str(out)], "rag bench") == 0
    made: dict[str, Any] = json.loads(out.read_text())
    return made


@pytest.fixture(scope="module")
def mat(result: dict[str, Any]) -> Callable[[str, str, int], float]:
    rows = {(row["category"], row["turn"], row["drafter"]): row["mat"] for row in result["rows"]}
    return lambda category, drafter, turn=1: rows[category, turn, drafter]


def test_every_answer_is_plains(result: dict[str, Any]) -> None:
    """fp32: a difference is a near-tie of plain's own choice, and there is at most one in 10,000 tokens."""
    tokens = sum(row["tokens"] for row in result["rows"])
    assert all(difference["margin"] <= 1e-3 for difference in result["differences"])
    assert len(result["differences"]) <= max(tokens // 10_000, 1)


def test_copies_pay_where_answers_copy(mat: Callable[..., float]) -> None:
    """`auto` keeps time short, not passes few: with so small a model wide passes are dear, and a drafter that always
    drafts ten tokens may need fewer passes."""
    assert mat("document_edit", "auto") > 2.0
    assert mat("code_fix", "auto") > 1.0
    assert mat("chat", "plain") == 1.0


def test_drafting_is_a_small_part_of_the_time(result: dict[str, Any]) -> None:
    assert set(result["overhead"]) >= {"plain", "casd", "auto"}
    assert {kept["against"] for kept in result["promise"]} >= {"plain", "best single drafter", "hf:prompt_lookup=10"}
