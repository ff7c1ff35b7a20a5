"""What was measured: turns of a conversation in one mode, and the file that keeps them as they come.

The file has the run's settings in its first line, then one JSON line a conversation and mode. A run that is started
again goes on behind the last whole line.
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
        cached_tokens: prompt tokens whose keys and values the worker had kept.
        first_token_ms, job_ms: from the start of the worker's job to the first token and to the end.
        seen_first_ms, seen_ms: the same from the client's request: retrieval, queue and network are in it.
        rewrite_ms: that making a follow-up stand alone took before the job; None where it was not tried.
        prompt_ids: of plain's answers where the run can read Redis, to look at near-ties; else empty.
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
class Talked:
    """A conversation in one mode."""

    id: str
    benchmark: str
    mode: str
    turns: list[Turn]


class TalkedFile:
    """The run's conversations, as they come.

    Args:
        settings: what must be the same for a run to go on with the file.
    """

    def __init__(self, path: Path, settings: Mapping[str, object]) -> None:
        self._file = RunFile(path, settings)

    def read(self) -> list[Talked]:
        """What is there already; see `RunFile.read`."""
        return [Talked(**{**line, "turns": [Turn(**turn) for turn in line["turns"]]}) for line in self._file.read()]

    def add(self, talked: Talked) -> None:
        self._file.add(asdict(talked))


def talked_path(result: Path) -> Path:
    """Where the conversations behind a result lie."""
    return result.with_suffix(".conversations.jsonl")
