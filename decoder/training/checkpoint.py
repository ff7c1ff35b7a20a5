"""Files of training runs: checkpoints, and learning curves with a JSON line per evaluation."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

CHECKPOINT, CURVE = "checkpoint.pt", "learning_curve.jsonl"


def save_checkpoint(folder: Path, state: Mapping[str, Any]) -> None:
    """Write a folder's checkpoint. The file is replaced only after all of it is written."""
    folder.mkdir(parents=True, exist_ok=True)
    temporary = folder / f".{CHECKPOINT}"
    torch.save(state, temporary)
    temporary.replace(folder / CHECKPOINT)


def load_checkpoint(folder: Path) -> dict[str, Any] | None:
    """A folder's checkpoint, on the CPU; None if there is none."""
    path = folder / CHECKPOINT
    return torch.load(path, map_location="cpu", weights_only=True) if path.is_file() else None


def append_to_curve(folder: Path, line: Mapping[str, Any]) -> None:
    """Add a line to a folder's learning curve."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / CURVE).open("a", encoding="utf-8") as file:
        file.write(json.dumps(line) + "\n")


def read_curve(path: Path) -> list[dict[str, Any]]:
    """The lines of a learning curve, one per step; if a step was evaluated twice, its last line."""
    lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
    return list({line["step"]: line for line in lines}.values())
