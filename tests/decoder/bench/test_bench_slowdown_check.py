"""The promise report: paired ratios, their intervals, the best single drafter chosen on the other half."""

from __future__ import annotations

import json
from pathlib import Path
from statistics import geometric_mean
from typing import Any

import pytest

from decoder.bench import main
from decoder.bench.decode.outcomes import Outcome, PromptsFile
from decoder.bench.decode.slowdown_check import BEST, compare_speeds, interval, is_single, overheads
from decoder.bench.decode.timing import TimedAnswer

MODES = ["plain", "casd", "pld", "auto", "hf:prompt_lookup=10"]


def answer(seconds: float, tokens: int = 11, first: int = 1, draft_ms: float = 0.0) -> TimedAnswer:
    return TimedAnswer(
        list(range(tokens)), "length", 1.0, seconds, 5, 0, 0, 0, first=first, draft_ms=draft_ms, verify_ms=90.0
    )


def outcome(name: str, category: str = "qa", **seconds: float) -> Outcome:
    """Seconds by mode; `lookup` is the peer's."""
    times = {"plain": 8.0, "casd": 4.0, "pld": 4.0, "auto": 4.0, "lookup": 4.0} | seconds
    answers = dict(zip(MODES, (answer(times[m]) for m in ("plain", "casd", "pld", "auto", "lookup")), strict=True))
    return Outcome(name, "bench", category, 1, 9, answers, {})


def entries(outcomes: list[Outcome], modes: list[str] = MODES) -> dict[str, dict[str, Any]]:
    return {entry["against"]: entry for entry in compare_speeds(outcomes, modes)}


def test_ratios_are_the_others_time_over_autos() -> None:
    by_mode = entries([outcome(str(n), auto=2.0) for n in range(4)])
    assert {name: entry["ratio"] for name, entry in by_mode.items()} == {"plain": 4.0, BEST: 2.0, MODES[-1]: 2.0}
    assert by_mode["plain"]["pairs"] == by_mode[BEST]["pairs"] == 4
    assert all((entry["low"], entry["high"]) == (entry["ratio"], entry["ratio"]) for entry in by_mode.values())
    assert [entry["promised"] for entry in by_mode.values()] == [True, True, False]
    assert by_mode["plain"]["verdict"] == "kept"


def test_broken_only_where_the_whole_interval_lies_below_the_bar() -> None:
    slow = entries([outcome(str(n), auto=9.0 + 0.1 * n) for n in range(4)])["plain"]
    assert slow["high"] < 0.98
    assert slow["verdict"] == "broken"
    mixed = entries([outcome(str(n), auto=seconds) for n, seconds in enumerate((7.0, 8.5, 9.0, 9.5))])["plain"]
    assert mixed["ratio"] < 0.98 < mixed["high"]
    assert mixed["verdict"] == "open"
    assert entries([outcome("a", auto=8.0 / 0.98 + 0.01)])["plain"]["verdict"] == "broken"
    assert entries([outcome("a", auto=8.0 / 0.98 - 0.01)])["plain"]["verdict"] == "kept"


def test_the_best_single_is_chosen_on_one_half_and_compared_on_the_other() -> None:
    # On prompts 0 and 2 casd is best, on 1 and 3 pld: each is compared where the other was best.
    group = [outcome(str(n), casd=2.0 if n % 2 == 0 else 6.0, pld=6.0 if n % 2 == 0 else 2.0) for n in range(4)]
    best = entries(group)[BEST]
    assert best["chosen"] == ["casd", "pld"]
    assert best["ratio"] == 1.5  # 6 over auto's 4; choosing and comparing on the same prompts would say 0.5
    always = entries([outcome(str(n), pld=2.0) for n in range(4)])[BEST]
    assert (always["chosen"], always["ratio"]) == (["pld"], 0.5)
    assert always["verdict"] == "broken"


def test_tasks_are_apart_and_one_prompt_has_no_best_single() -> None:
    comparisons = compare_speeds([outcome("a", "qa"), outcome("b", "chat"), outcome("c", "chat")], MODES)
    assert [(e["category"], e["against"]) for e in comparisons] == [
        ("chat", "plain"),
        ("chat", BEST),
        ("chat", MODES[-1]),
        ("qa", "plain"),
        ("qa", MODES[-1]),
    ]


def test_times_are_by_token_behind_the_first_pass() -> None:
    answers = {"plain": answer(8.0, 9), "auto": answer(4.0, 5), "hf": answer(1.0, 11, first=9)}
    by_mode = entries([Outcome("a", "b", "c", 1, 9, answers, {})], ["plain", "auto", "hf"])
    assert by_mode["plain"]["ratio"] == 1.0
    assert by_mode["hf"]["ratio"] == 0.5
    answers["hf"] = answer(1.0, 11, first=11)  # nothing was decoded behind the first pass
    assert set(entries([Outcome("a", "b", "c", 1, 9, answers, {})], ["plain", "auto", "hf"])) == {"plain"}


def test_singles() -> None:
    singles = ["casd", "pld:max_ngram=2", "casd:exact=strict", "auto:matches=2", "hf", "plain", "auto", "small_model"]
    assert [mode for mode in singles if is_single(mode, "auto")] == ["casd", "pld:max_ngram=2", "small_model"]


def test_intervals_are_those_of_the_geometric_mean() -> None:
    values = [0.5, 1.0, 2.0, 4.0, 1.5, 0.8]
    low, high = interval(values)
    assert interval(values) == (low, high)
    assert min(values) < low < geometric_mean(values) < high < max(values)
    narrow = interval(values * 20)
    assert low < narrow[0] < geometric_mean(values) < narrow[1] < high
    assert geometric_mean([2.0, 8.0]) == pytest.approx(4.0)


def test_overhead_is_drafting_over_all_decode_time() -> None:
    answers = {"plain": answer(1.0), "auto": answer(1.0, draft_ms=10.0), "hf": answer(1.0)}
    assert overheads([Outcome("a", "b", "c", 1, 9, answers, {})], list(answers)) == {"plain": 0.0, "auto": 0.1}


def written(path: Path, outcomes: list[Outcome], **settings: Any) -> Path:
    file = PromptsFile(path, {"modes": MODES, "model": "tiny", "dtype": "float32", **settings})
    file.read()
    for one in outcomes:
        for mode, kept in one.answers.items():
            file.add_answer(one.id, one.turn, mode, kept)
        file.close(one)
    return path


def test_promise_from_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first = written(tmp_path / "one.prompts.jsonl", [outcome(str(n), auto=2.0) for n in range(2)])
    second = written(tmp_path / "two.prompts.jsonl", [outcome(f"{n}b", auto=2.0) for n in range(2)])
    result = tmp_path / "one.json"
    out, tables = tmp_path / "p.json", tmp_path / "p.md"
    arguments = ["promise", str(result), str(second), "--json", str(out), "--markdown", str(tables)]
    assert main(arguments) == 0
    result_json = json.loads(out.read_text())
    assert [(e["against"], e["pairs"]) for e in result_json["promise"]] == [("plain", 4), (BEST, 4), (MODES[-1], 4)]
    assert result_json["environment"]["reads"] == ["one.json", "two.prompts.jsonl"]
    text = tables.read_text()
    assert "| bench | qa | 1 | best single drafter (casd) | 4 | 2.000 | 2.000 | 2.000 | kept |" in text
    assert "Of 2 comparisons" in text
    slow = written(tmp_path / "slow.prompts.jsonl", [outcome(str(n), auto=9.0) for n in range(2)])
    capsys.readouterr()
    assert main(["promise", str(slow)]) == 1
    printed = capsys.readouterr().out
    assert "| broken |" in printed
    assert "broken: bench/qa turn 1: 0.889 against plain (95 %: 0.889 to 0.889)" in printed
    assert main(["promise", str(first), str(slow)]) == 2
    assert "0 was answered in two of these runs" in capsys.readouterr().err
    other = written(tmp_path / "other.prompts.jsonl", [outcome("x")], dtype="bfloat16")
    for bad, message in [
        ([str(first), str(other)], "another dtype"),
        ([str(first), "--auto", "magic"], "no mode is called 'magic'"),
        ([str(tmp_path / "nothing.json")], "there is no file"),
        ([str(written(tmp_path / "empty.prompts.jsonl", []))], "no answers that are complete"),
    ]:
        assert main(["promise", *bad]) == 2
        assert message in capsys.readouterr().err


def test_prompts_in_files_may_be_unfinished(tmp_path: Path) -> None:
    path = written(tmp_path / "one.prompts.jsonl", [outcome(str(n)) for n in range(2)])
    PromptsFile(path, {}).add_answer("half", 1, "plain", answer(1.0))
    with path.open("a") as file:
        file.write('{"id": "cut')
    assert main(["promise", str(path), "--json", str(tmp_path / "out.json")]) == 0
    assert json.loads((tmp_path / "out.json").read_text())["promise"][0]["pairs"] == 2
