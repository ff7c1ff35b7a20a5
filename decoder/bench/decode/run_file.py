"""RunFile: measurements written as they come, so that a stopped run can be continued.

The file has JSON lines: the run's settings first, then what the run adds. Knows lines; knows no measurement.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from decoder.recording.jsonl import drop_partial_line
from decoder.recording.prompts import BenchError


class RunFile:
    """A file that lines are added to.

    Args:
        settings: a run continues the file only if it has the same settings.
    """

    def __init__(self, path: Path, settings: Mapping[str, object]) -> None:
        self._path = path
        self._settings = json.loads(json.dumps(settings))

    def read(self) -> list[dict[str, Any]]:
        """The lines added so far. Creates the file if there is none, and drops a line that a crash cut off.

        Raises:
            BenchError: the file belongs to a run with other settings.
        """
        if not drop_partial_line(self._path):
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self.add({"settings": self._settings})
            return []
        first, *lines = read_lines(self._path)
        if first.get("settings") != self._settings:
            raise BenchError(
                f"{self._path} belongs to a run with other settings; finish that run, name another --json, "
                "or delete the file"
            )
        return lines

    def add(self, value: object) -> None:
        """Add a line; `value` must be JSON-serialisable."""
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(value, ensure_ascii=False) + "\n")


def read_lines(path: Path) -> list[dict[str, Any]]:
    """All whole lines of a run's file, its settings first."""
    return [json.loads(line) for line in path.read_bytes().split(b"\n")[:-1]]
