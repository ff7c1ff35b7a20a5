"""Outcomes of `bench decode`, one a prompt, and the file that keeps them while the run goes on."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from decoder.bench.measure import Measured
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


class PartialFile:
    """JSON lines: the run's settings first, then one outcome a line, each written out at once.

    Args:
        path: removed when the run is complete.
        settings: what must be the same for a run to go on with the file.
    """

    def __init__(self, path: Path, settings: Mapping[str, object]) -> None:
        self._path = path
        self._settings = json.loads(json.dumps(settings))

    def read(self) -> dict[tuple[str, int], Outcome]:
        """Outcomes by (id, turn); a line cut off by a crash is dropped. Starts the file where there is none.

        Raises BenchError where the file belongs to a run with other settings.
        """
        if not self._path.exists() or not self._path.stat().st_size:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._append({"settings": self._settings})
            return {}
        data = self._path.read_bytes()
        whole = data[: data.rfind(b"\n") + 1]
        if len(whole) < len(data):
            self._path.write_bytes(whole)
        head, *lines = [json.loads(line) for line in whole.decode().splitlines()] or [{}]
        if head.get("settings") != self._settings:
            raise BenchError(
                f"{self._path} belongs to a run with other settings; finish that run, name another --json, "
                "or delete the file"
            )
        outcomes = [_outcome(line) for line in lines]
        return {(outcome.id, outcome.turn): outcome for outcome in outcomes}

    def add(self, outcome: Outcome) -> None:
        self._append(asdict(outcome))

    def remove(self) -> None:
        self._path.unlink(missing_ok=True)

    def _append(self, value: object) -> None:
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(value, ensure_ascii=False) + "\n")


def _outcome(line: dict[str, Any]) -> Outcome:
    answers = {mode: Measured(**answer) for mode, answer in line.pop("answers").items()}
    found = {mode: Difference(**difference) for mode, difference in line.pop("differences").items()}
    flips = line.pop("control", None)
    control = None if flips is None else [Difference(**flip) for flip in flips]
    return Outcome(**line, answers=answers, differences=found, control=control)
