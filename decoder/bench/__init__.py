"""Benchmarks of decoding: `decode` times drafters on a model, `promise` checks those times, `record` saves a model's
answers, `simulate` scores drafters on saved answers.

    python -m decoder.bench decode --model smollm2-135m --data items.jsonl --drafters casd --json out.json
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from decoder.bench.format_quality import compare_formats
    from decoder.bench.format_times import time_formats
    from decoder.bench.head_search import find_heads


def main(
    argv: Sequence[str] | None = None,
    program: str = "rag bench",
    more: Mapping[str, str] | None = None,
    models_dir: Path | None = None,
) -> int:
    """Run a benchmark command and return its exit status.

    Args:
        argv: arguments from the subcommand on. Default: those of the process.
        program: program name in the usage text and in the recorded command line.
        more: name and help text of commands that the caller runs itself; they are only listed here.
        models_dir: the folder of named models, if the arguments name none.
    """
    from decoder.bench.cli import run

    return run(argv, program, more, models_dir)


def __getattr__(name: str) -> Any:
    """Import the other names on first use: they need torch and transformers."""
    if name == "time_formats":
        from decoder.bench.format_times import time_formats

        return time_formats
    if name == "compare_formats":
        from decoder.bench.format_quality import compare_formats

        return compare_formats
    if name == "find_heads":
        from decoder.bench.head_search import find_heads

        return find_heads
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


__all__ = ["compare_formats", "find_heads", "main", "time_formats"]
