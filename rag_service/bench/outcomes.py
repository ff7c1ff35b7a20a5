"""Measured conversations, and the file that stores them as they come.

The first line of the file has the run's settings; every other line is one conversation in one mode. A run that is
started again continues after the last whole line.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from decoder.bench.decode.run_file import RunFile


@dataclass(frozen=True, slots=True)
class Turn:
    """One answer, measured. Times are milliseconds.

    Attributes:
        ids: of the answer's tokens, its end token included.
        passages: chunk ids of what was retrieved, best first.
        cached_tokens: prompt tokens whose keys and values the worker reused.
        first_token_ms, job_ms: from the start of the worker's job to the first token and to the end.
        seen_first_ms, seen_ms: the same from the client's request on, with retrieval, queue and network.
        rewrite_ms: time to rewrite a follow-up before the job; None if it was not tried.
        prompt_ids: of plain answers, to measure margins of near-ties; else empty.
    """

    text: str
    ids: list[int]
    citations: list[dict[str, Any]]
    passages: list[str]
    finish_reason: str
    prompt_tokens: int
    cached_tokens: int
    steps: int
    drafted: int
    accepted: int
    first_token_ms: float
    job_ms: float
    seen_first_ms: float
    seen_ms: float
    rewrite_ms: float | None = None
    prompt_ids: list[int] = field(default_factory=list)

    @property
    def tokens(self) -> int:
        return len(self.ids)

    @property
    def decode_ms(self) -> float:
        """From the first token to the end."""
        return self.job_ms - self.first_token_ms


@dataclass(frozen=True, slots=True)
class Measured:
    """A conversation in one mode."""

    id: str
    benchmark: str
    mode: str
    turns: list[Turn]


class MeasuredFile:
    """The conversations of a run, as they come.

    Args:
        settings: a run with other settings cannot continue the file.
    """

    def __init__(self, path: Path, settings: Mapping[str, object]) -> None:
        self._file = RunFile(path, settings)

    def read(self) -> list[Measured]:
        """The conversations so far; see `RunFile.read`."""
        return [Measured(**{**line, "turns": [Turn(**turn) for turn in line["turns"]]}) for line in self._file.read()]

    def add(self, measured: Measured) -> None:
        self._file.add(asdict(measured))


def measured_path(result: Path) -> Path:
    """The file with the conversations of a result."""
    return result.with_suffix(".conversations.jsonl")
