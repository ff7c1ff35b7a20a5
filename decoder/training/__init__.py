"""Trains drafters for a target model on the target's own answers: `eagle` heads and `sdsat` adapters. `distil` saves
such answers.

    python -m decoder.training eagle --model smollm2-135m --data answers.npz --out FOLDER --minutes 60
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path


def main(argv: Sequence[str] | None = None, program: str = "rag train", models_dir: Path | None = None) -> int:
    """Run a training command and return its exit status.

    Args:
        argv: arguments from the subcommand on. Default: those of the process.
        program: program name in the usage text and in the recorded command line.
        models_dir: the folder of named models, if the arguments name none.
    """
    from decoder.training.cli import run

    return run(argv, program, models_dir)


__all__ = ["main"]
