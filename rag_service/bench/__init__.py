"""`rag bench sessions`: conversations over HTTP, through Redis and a worker, measured turn by turn.

Every conversation runs with reuse of earlier turns, without it, and plain; texts and citations must be equal.
`rag bench citations` is in `citations`.
"""

from __future__ import annotations

from collections.abc import Sequence


def main(argv: Sequence[str], program: str = "rag bench sessions") -> int:
    """Run with command-line arguments; returns the exit status."""
    from rag_service.bench.cli import run

    return run(argv, program)


__all__ = ["main"]
