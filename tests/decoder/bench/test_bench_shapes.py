"""`bench replay` decodes recorded answers on a model of random weights; `scripts/gpu-proof` runs it in parts."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from decoder.bench import main
from decoder.bench.replayed.replay import replay_shape
from decoder.bench.replayed.steered_target import SteeredTarget
from decoder.recording.prompts import BenchError
from decoder.recording.record import Recording

ROOT = Path(__file__).parents[3]


def recordings() -> list[Recording]:
    """One answer that copies its prompt, one that does not."""
    copied = list(range(100, 124))
    prompts = ([7, *copied, 9], [11, 12, 13])
    answers = (copied, [5000 + 37 * number for number in range(20)])
    return [
        Recording(str(number), "bench", "c", 1, prompt, answer, "m", "float32", "length", 64)
        for number, (prompt, answer) in enumerate(zip(prompts, answers, strict=True))
    ]


@pytest.mark.parametrize("dtype", ["float32", "int8"])
def test_the_recorded_answers_come_out_and_copies_save_passes(dtype: str) -> None:
    said: list[str] = []
    rows = replay_shape("tiny", recordings(), ["plain", "casd"], [1, 2], "cpu", dtype, said.append, answers=2)
    by_name = {(row["drafter"], row["at_once"]): row for row in rows}
    assert by_name["plain", 1]["mat"] == by_name["plain", 2]["mat"] == 1
    assert by_name["casd", 1]["mat"] > 1.5
    assert (
        by_name["plain", 1]["tokens"]
        == by_name["casd", 1]["tokens"]
        == sum(len(one.output_ids) - 1 for one in recordings())
    )
    assert len(said) == 5  # one says why there are no graphs


def test_an_answer_that_differs_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SteeredTarget, "steer", lambda self, cache, one: self._answers.update({cache: _Wrong(one)}))
    with pytest.raises(BenchError, match="not the recorded one"):
        replay_shape("tiny", recordings(), ["plain"], [1], "cpu", "float32", lambda _: None, answers=2)


class _Wrong:
    """Steers nowhere."""

    def __init__(self, recording: Recording) -> None:
        self.prompt, self.tokens = -10_000, recording.output_ids


def test_unusable_arguments_are_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(BenchError, match="int8 is for the device cpu"):
        replay_shape("tiny", recordings(), ["plain"], [1], "cuda", "int8", lambda _: None)
    with pytest.raises(BenchError, match="no shape 'small'; choose of tiny, "):
        replay_shape("small", recordings(), ["plain"], [1], "cpu", "float32", print)
    missing, out = str(tmp_path / "none.jsonl"), str(tmp_path / "out.json")
    assert main(["replay", "--shape", "tiny", "--recorded", missing, "--json", out]) == 2
    assert "there is no file" in capsys.readouterr().err


@pytest.mark.full
def test_the_proof_goes_on_where_it_stopped(tmp_path: Path) -> None:
    command = [
        sys.executable,
        str(ROOT / "scripts/gpu-proof"),
        "--out",
        str(tmp_path),
        "--parts",
        "replay-7b,exactness",
    ]
    command += ["--device", "cpu", "--shape", "tiny", "--at-once", "1", "--answers", "1"]
    first = subprocess.run(command, check=False, capture_output=True, text=True, timeout=240)
    assert first.returncode == 0, first.stderr
    assert "replay-7b: done" in first.stdout
    results = json.loads((tmp_path / "results.json").read_text())
    assert [row["drafter"] for row in results["replay-7b"]["rows"]] == ["plain", "auto"]
    assert "| tiny | auto" in (tmp_path / "results.md").read_text()
    again = subprocess.run(command, check=False, capture_output=True, text=True, timeout=240)
    assert (again.returncode, again.stdout) == (0, "")
