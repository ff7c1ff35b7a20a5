"""JSONL files that runs append to."""

from __future__ import annotations

from pathlib import Path


def drop_partial_line(path: Path) -> bool:
    """Remove a last line that a crash cut off. Returns whether the file has a line."""
    data = path.read_bytes() if path.exists() else b""
    whole = data[: data.rfind(b"\n") + 1]
    if len(whole) < len(data):
        path.write_bytes(whole)
    return bool(whole)
