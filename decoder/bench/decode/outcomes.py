"""Outcomes of `bench decode`, one per prompt, and the file that stores them.

The file has one JSON line per answer (a prompt in one mode), written when the answer is complete, and one line that
closes the prompt with the comparison of its answers. A stopped run continues after the last line. `bench promise` reads
the file when the run is over.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from decoder.bench.decode.run_file import RunFile, read_lines
from decoder.bench.decode.timing import TimedAnswer
from decoder.recording.prompts import BenchError

Category = tuple[str, str, int]
"""A benchmark, a category of it, and a turn."""
Turn = tuple[str, int]
"""An item's id and a turn, from 1."""


@dataclass(frozen=True, slots=True)
class Difference:
    """The first token of an answer that differs from plain decoding's.

    Attributes:
        index: token number in the answer, from 0.
        position: absolute position.
        margin: by how much plain decoding preferred its own token, in the scores that `select` compares.
    """

    index: int
    position: int
    margin: float


@dataclass(frozen=True, slots=True)
class Outcome:
    """One turn of one item, answered by every mode.

    Attributes:
        differences: only of the modes that differ from plain decoding.
        control: every token that the control would have chosen differently; None if the control did not run.
    """

    id: str
    benchmark: str
    category: str
    turn: int
    prompt_tokens: int
    answers: dict[str, TimedAnswer]
    differences: dict[str, Difference]
    control: list[Difference] | None = None


def by_category(outcomes: Iterable[Outcome]) -> dict[Category, list[Outcome]]:
    """Outcomes of each benchmark, category and turn, in sorted order."""
    groups: dict[Category, list[Outcome]] = {}
    for outcome in outcomes:
        groups.setdefault((outcome.benchmark, outcome.category, outcome.turn), []).append(outcome)
    return dict(sorted(groups.items()))


class PromptsFile:
    """A run's answers, each prompt's followed by the line that closes it.

    Args:
        settings: a run continues the file only if it has the same settings.
    """

    def __init__(self, path: Path, settings: Mapping[str, object]) -> None:
        self._file = RunFile(path, settings)

    def read(self) -> tuple[dict[Turn, Outcome], dict[Turn, dict[str, TimedAnswer]]]:
        """Outcomes, and the answers by mode to prompts that are not closed; see `RunFile.read`."""
        outcomes, open_answers = _join(self._file.read())
        return {(outcome.id, outcome.turn): outcome for outcome in outcomes}, open_answers

    def add_answer(self, id: str, turn: int, mode: str, answer: TimedAnswer) -> None:
        self._file.add({"id": id, "turn": turn, "mode": mode, "answer": asdict(answer)})

    def close(self, outcome: Outcome) -> None:
        """Write the prompt's last line; its answers were added before."""
        fields = asdict(outcome)
        del fields["answers"]
        self._file.add(fields)


def read_outcomes(path: Path) -> tuple[dict[str, Any], list[Outcome]]:
    """A run's settings and its outcomes so far. Raises BenchError if the file is missing or has no outcome."""
    if not path.is_file():
        raise BenchError(f"there is no file {path}; `rag bench decode --json OUT` writes OUT and OUT's .prompts.jsonl")
    first, *lines = read_lines(path) or [{}]
    outcomes, _ = _join(lines)
    if not outcomes:
        raise BenchError(f"{path} holds no answers that are complete in all modes; let the run go on")
    return first.get("settings", {}), outcomes


def prompts_path(result: Path) -> Path:
    """The file with the answers of a result."""
    return result.with_suffix(".prompts.jsonl")


def _join(lines: Iterable[dict[str, Any]]) -> tuple[list[Outcome], dict[Turn, dict[str, TimedAnswer]]]:
    """Outcomes in order, and the answers to prompts that are not closed."""
    outcomes: list[Outcome] = []
    answers: dict[Turn, dict[str, TimedAnswer]] = {}
    for line in lines:
        turn = line["id"], line["turn"]
        if "answer" in line:
            answers.setdefault(turn, {})[line["mode"]] = TimedAnswer(**line["answer"])
        else:
            line["differences"] = {mode: Difference(**fields) for mode, fields in line["differences"].items()}
            if line.get("control") is not None:
                line["control"] = [Difference(**fields) for fields in line["control"]]
            outcomes.append(Outcome(**line, answers=answers.pop(turn)))
    return outcomes, answers
