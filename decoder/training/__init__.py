"""Training of what drafts for a target model, on the target's own answers: `eagle` heads, and `distil`, which writes
such answers down.

    python -m decoder.training eagle --model smollm2-135m --data answers.npz --out FOLDER --minutes 60

Knows decoder's public parts; nothing of decoder imports it.
"""

from __future__ import annotations

from collections.abc import Sequence


def main(argv: Sequence[str] | None = None, program: str = "rag train") -> int:
    """Run a training command; returns the exit status.

    Args:
        argv: arguments from the subcommand on; those of the process where None.
        program: the name that usage and the written command line show.
    """
    from decoder.training.cli import run

    return run(argv, program)


__all__ = ["main"]
