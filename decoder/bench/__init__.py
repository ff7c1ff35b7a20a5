"""Benchmarks of decoding: `decode` on a model, `record` its outputs once, `simulate` drafters on what was recorded.

    python -m decoder.bench decode --model smollm2-135m --data items.jsonl --drafters casd --json out.json

Knows decoder's public parts and transformers' tokenizers; nothing of decoder imports it.
"""

from __future__ import annotations

from collections.abc import Sequence


def main(argv: Sequence[str] | None = None, program: str = "rag bench") -> int:
    """Run `decode`, `record` or `simulate` with command-line arguments; returns the exit status.

    Args:
        argv: arguments from the subcommand on; those of the process where None.
        program: the name that usage and the written command line show.
    """
    from decoder.bench.cli import run

    return run(argv, program)


__all__ = ["main"]
