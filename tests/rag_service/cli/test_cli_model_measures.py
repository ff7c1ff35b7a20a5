"""`rag models heads` and `rag models quality`: what they show of a model that is measured."""

from __future__ import annotations

import json
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.support.command_line import rag

pytestmark = pytest.mark.usefixtures("own_folder")


def test_heads_of_a_model_are_found_and_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from decoder import bench
    from decoder.induction_heads import Head, InductionHeads

    asked: list[dict[str, Any]] = []

    def find(model: str, **options: Any) -> tuple[Path, InductionHeads]:
        options["progress"](1, 2, 20)
        asked.append({"model": model, **options})
        return tmp_path / "h.json", InductionHeads("tiny", 2, 4, 2, 40, (Head(1, 3, 0.5), Head(0, 0, 0.25)))

    monkeypatch.setattr(bench, "find_heads", find)
    told = rag("models", "heads", "tiny", "--out", "h.json", "--data", "texts.jsonl", "--limit", "2")
    assert told.exit_code == 0
    assert "2 of 8 heads" in told.stdout
    assert "layer 1, head 3; it looked at the source of 50% of 40 copied tokens" in " ".join(told.stdout.split())
    assert asked[0]["model"] == "tiny"
    assert (asked[0]["out"], asked[0]["data"], asked[0]["limit"]) == (Path("h.json"), Path("texts.jsonl"), 2)
    shown = json.loads(rag("models", "heads", "tiny", "--json").stdout)
    assert shown["heads"] == [[1, 3], [0, 0]]


def test_the_quality_of_a_number_format_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    from decoder import bench
    from decoder.bench.format_quality import Quality

    asked: list[dict[str, Any]] = []

    def compare(model: str, **options: Any) -> Quality:
        options.pop("progress")("int8", 1, 2)
        asked.append({"model": model, **options})
        return Quality(model, "int8", "bfloat16", 1000, 8.7, 8.6, 0.98, 0.002, 10**9, 3 * 10**9)

    monkeypatch.setattr(bench, "compare_formats", compare)
    told = rag("models", "quality", "tiny", "--dtype", "int8", "--reference", "bfloat16", "--file", "t.txt")
    assert told.exit_code == 0
    shown = " ".join(told.stdout.split())
    assert "bfloat16: perplexity 8.600, 3.00 GB" in shown
    assert "int8: perplexity 8.700, 1.00 GB" in shown
    assert "the same at 98.0% of the tokens" in shown
    assert (asked[0]["dtype"], asked[0]["reference"], asked[0]["file"]) == ("int8", "bfloat16", Path("t.txt"))
    assert json.loads(rag("models", "quality", "tiny", "--json").stdout)["agreement"] == 0.98


@pytest.mark.parametrize("terminal", [True, False])
def test_libraries_draw_their_bars_on_a_terminal_alone(terminal: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_DISABLE_PROGRESS_BARS", "")  # so that it is put back
    monkeypatch.delenv("HF_HUB_DISABLE_PROGRESS_BARS")
    monkeypatch.setattr("rag_service.cli.sys", SimpleNamespace(stderr=SimpleNamespace(isatty=lambda: terminal)))
    rag("models", "list")
    assert ("HF_HUB_DISABLE_PROGRESS_BARS" in os.environ) == (not terminal)


def test_the_quality_of_a_format_that_is_none_says_what_to_do() -> None:
    refused = rag("models", "quality", "smollm2-135m")
    assert refused.exit_code == 1
    assert "rag models pull smollm2-135m" in refused.stderr


def test_heads_of_a_model_that_is_not_there_say_what_to_do() -> None:
    refused = rag("models", "heads", "smollm2-135m")
    assert refused.exit_code == 1
    assert "rag models pull smollm2-135m" in refused.stderr
