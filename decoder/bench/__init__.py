"""Benchmarks of decoding: `decode` on a model, `promise` on its answers, `record` a model's outputs once, `simulate`
drafters on what was recorded.

    python -m decoder.bench decode --model smollm2-135m --data items.jsonl --drafters casd --json out.json

Knows decoder's public parts and transformers' tokenizers; nothing of decoder imports it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from decoder.induction_heads import InductionHeads


def main(argv: Sequence[str] | None = None, program: str = "rag bench", more: Mapping[str, str] | None = None) -> int:
    """Run `decode`, `promise`, `record` or `simulate` with command-line arguments; returns the exit status.

    Args:
        argv: arguments from the subcommand on; those of the process where None.
        program: the name that usage and the written command line show.
        more: further commands of `program`, run by whoever calls this, and what the help says of each.
    """
    from decoder.bench.cli import run

    return run(argv, program, more)


def find_heads(
    model: str,
    *,
    data: Path | None = None,
    out: Path | None = None,
    models_dir: Path | None = None,
    dtype: str = "float32",
    device: str = "cpu",
    limit: int | None = None,
    progress: Callable[[int, int, int], None] = lambda answered, prompts, tokens: None,
) -> tuple[Path, InductionHeads]:
    """Find a model's induction heads and save them; see `decoder.bench.heads.find_and_save`."""
    from decoder.bench.heads import find_and_save

    return find_and_save(
        model, data=data, out=out, models_dir=models_dir, dtype=dtype, device=device, limit=limit, progress=progress
    )


__all__ = ["find_heads", "main"]
