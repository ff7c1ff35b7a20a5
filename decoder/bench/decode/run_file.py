"""RunFile: what a run measured, kept as it comes, so that a run that is started again goes on where it stopped.

JSON lines: the run's settings, then whatever the run adds. Knows lines; knows nothing of what they say.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from decoder.recording.prompts import BenchError


class RunFile:
    """A file to add lines to.

    Args:
        settings: what must be the same for a run to go on with the file.
    """

    def __init__(self, path: Path, settings: Mapping[str, object]) -> None:
        self._path = path
        self._settings = json.loads(json.dumps(settings))

    def read(self) -> list[dict[str, Any]]:
        """What was added so far. Starts the file where there is none; a line cut off by a crash is dropped.

        Raises:
            BenchError: the file belongs to a run with other settings.
        """
        data = self._path.read_bytes() if self._path.exists() else b""
        whole = data[: data.rfind(b"\n") + 1]
        if len(whole) < len(data):
            self._path.write_bytes(whole)
        if not whole:
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
        """Add a line; `value` is what JSON can say."""
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(value, ensure_ascii=False) + "\n")


def read_lines(path: Path) -> list[dict[str, Any]]:
    """All whole lines of a file that a run wrote, its settings first."""
    return [json.loads(line) for line in path.read_bytes().split(b"\n")[:-1]]
