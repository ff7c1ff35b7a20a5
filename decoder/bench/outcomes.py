"""Outcomes of `bench decode`, one a prompt, and the file that keeps them.

The file has one JSON line an answer (a prompt in one mode), written as soon as it is there, and one that closes the
prompt with what comparing its answers found. A run that is started again goes on behind the last line; the promise
report and anything else that asks for pairs reads it when the run is over.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from decoder.bench.measured import Measured
from decoder.bench.prompts import BenchError


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
    """JSON lines: the run's settings, then answers, each prompt's followed by the line that closes it.

    Args:
        settings: what must be the same for a run to go on with the file.
    """

    def __init__(self, path: Path, settings: Mapping[str, object]) -> None:
        self._path = path
        self._settings = json.loads(json.dumps(settings))

    def read(self) -> tuple[dict[Place, Outcome], dict[Place, dict[str, Measured]]]:
        """Outcomes, and by mode the answers to prompts that were not closed.

        A line cut off by a crash is dropped. Starts the file where there is none. Raises BenchError where the file
        belongs to a run with other settings.
        """
        if not self._path.exists() or not self._path.stat().st_size:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._append({"settings": self._settings})
            return {}, {}
        data = self._path.read_bytes()
        whole = data[: data.rfind(b"\n") + 1]
        if len(whole) < len(data):
            self._path.write_bytes(whole)
        if not whole:
            self._append({"settings": self._settings})
            return {}, {}
        settings, outcomes, open_answers = _read(self._path)
        if settings != self._settings:
            raise BenchError(
                f"{self._path} belongs to a run with other settings; finish that run, name another --json, "
                "or delete the file"
            )
        return {(outcome.id, outcome.turn): outcome for outcome in outcomes}, open_answers

    def add_answer(self, id: str, turn: int, mode: str, answer: Measured) -> None:
        self._append({"id": id, "turn": turn, "mode": mode, "answer": asdict(answer)})

    def close(self, outcome: Outcome) -> None:
        """The prompt's last line; its answers were added before."""
        facts = asdict(outcome)
        del facts["answers"]
        self._append(facts)

    def _append(self, value: object) -> None:
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(value, ensure_ascii=False) + "\n")


def read_outcomes(path: Path) -> tuple[dict[str, Any], list[Outcome]]:
    """A run's settings and its outcomes so far. Raises BenchError where the file holds none."""
    if not path.is_file():
        raise BenchError(f"there is no file {path}; `rag bench decode --json OUT` writes OUT and OUT's .prompts.jsonl")
    settings, outcomes, _ = _read(path)
    if not outcomes:
        raise BenchError(f"{path} holds no answers that are complete in all modes; let the run go on")
    return settings, outcomes


def prompts_path(result: Path) -> Path:
    """Where the answers behind a result lie."""
    return result.with_suffix(".prompts.jsonl")


def _read(path: Path) -> tuple[dict[str, Any], list[Outcome], dict[Place, dict[str, Measured]]]:
    """(settings, outcomes in order, answers of prompts that were not closed)."""
    settings: dict[str, Any] = {}
    outcomes: list[Outcome] = []
    answers: dict[Place, dict[str, Measured]] = {}
    for line in path.read_bytes().split(b"\n")[:-1]:
        value = json.loads(line)
        if "settings" in value:
            settings = value["settings"]
        elif "answer" in value:
            answers.setdefault((value["id"], value["turn"]), {})[value["mode"]] = Measured(**value["answer"])
        else:
            outcomes.append(_outcome(value, answers.pop((value["id"], value["turn"]))))
    return settings, outcomes, answers


def _outcome(line: dict[str, Any], answers: dict[str, Measured]) -> Outcome:
    found = {mode: Difference(**difference) for mode, difference in line.pop("differences").items()}
    flips = line.pop("control", None)
    control = None if flips is None else [Difference(**flip) for flip in flips]
    return Outcome(**line, answers=answers, differences=found, control=control)
