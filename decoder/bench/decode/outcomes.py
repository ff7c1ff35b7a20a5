"""Outcomes of `bench decode`, one a prompt, and the file that keeps them.

The file has one JSON line an answer (a prompt in one mode), written as soon as it is there, and one that closes the
prompt with what comparing its answers found. A run that is started again goes on behind the last line; the promise
report and anything else that asks for pairs reads it when the run is over.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from decoder.bench.decode.measurement import Measured
from decoder.bench.decode.run_file import RunFile, read_lines
from decoder.recording.prompts import BenchError


@dataclass(frozen=True, slots=True)
class Difference:
    """Where an answer first leaves plain decoding's.

    Attributes:
        index: token number in the answer, from 0.
        position: absolute position.
        margin: by how much plain preferred its own token there, in what `select` compares.
    """

    index: int
    position: int
    margin: float


@dataclass(frozen=True, slots=True)
class Outcome:
    """One turn of one item, answered by every mode; `differences` only has the modes that differ from plain.

    `control` has every token that the control would have chosen otherwise; None where it did not run.
    """

    id: str
    benchmark: str
    category: str
    turn: int
    prompt_tokens: int
    answers: dict[str, Measured]
    differences: dict[str, Difference]
    control: list[Difference] | None = None


Place = tuple[str, int]
"""An item's id and a turn, from 1."""


class PromptsFile:
    """The run's answers, each prompt's followed by the line that closes it.

    Args:
        settings: what must be the same for a run to go on with the file.
    """

    def __init__(self, path: Path, settings: Mapping[str, object]) -> None:
        self._file = RunFile(path, settings)

    def read(self) -> tuple[dict[Place, Outcome], dict[Place, dict[str, Measured]]]:
        """Outcomes, and by mode the answers to prompts that were not closed; see `RunFile.read`."""
        outcomes, open_answers = _joined(self._file.read())
        return {(outcome.id, outcome.turn): outcome for outcome in outcomes}, open_answers

    def add_answer(self, id: str, turn: int, mode: str, answer: Measured) -> None:
        self._file.add({"id": id, "turn": turn, "mode": mode, "answer": asdict(answer)})

    def close(self, outcome: Outcome) -> None:
        """The prompt's last line; its answers were added before."""
        facts = asdict(outcome)
        del facts["answers"]
        self._file.add(facts)


def read_outcomes(path: Path) -> tuple[dict[str, Any], list[Outcome]]:
    """A run's settings and its outcomes so far. Raises BenchError where the file holds none."""
    if not path.is_file():
        raise BenchError(f"there is no file {path}; `rag bench decode --json OUT` writes OUT and OUT's .prompts.jsonl")
    first, *lines = read_lines(path) or [{}]
    outcomes, _ = _joined(lines)
    if not outcomes:
        raise BenchError(f"{path} holds no answers that are complete in all modes; let the run go on")
    return first.get("settings", {}), outcomes


def prompts_path(result: Path) -> Path:
    """Where the answers behind a result lie."""
    return result.with_suffix(".prompts.jsonl")


def _joined(lines: Iterable[dict[str, Any]]) -> tuple[list[Outcome], dict[Place, dict[str, Measured]]]:
    """Outcomes in order, and the answers of prompts that were not closed."""
    outcomes: list[Outcome] = []
    answers: dict[Place, dict[str, Measured]] = {}
    for line in lines:
        if "answer" in line:
            answers.setdefault((line["id"], line["turn"]), {})[line["mode"]] = Measured(**line["answer"])
        else:
            outcomes.append(_outcome(line, answers.pop((line["id"], line["turn"]))))
    return outcomes, answers


def _outcome(line: dict[str, Any], answers: dict[str, Measured]) -> Outcome:
    found = {mode: Difference(**difference) for mode, difference in line.pop("differences").items()}
    flips = line.pop("control", None)
    control = None if flips is None else [Difference(**flip) for flip in flips]
    return Outcome(**line, answers=answers, differences=found, control=control)
