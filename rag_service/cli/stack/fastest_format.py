"""Which number format multiplies fastest on this processor: measured, and what `rag doctor` advises by it."""

from __future__ import annotations

import os
from collections.abc import Iterator

from rag_service.cli.console import count
from rag_service.cli.stack.finding import Finding

MOST_LOAD = 0.7
"""Processes a core beside which times of number formats say little."""
LEAST_GAIN = 1.1
"""How many times as fast a number format must be before another one is given up for it; less may be chance."""
MOST_SPREAD = 1.5
"""How much slower the slowest round of a measurement may be than the fastest."""
WHAT = "fastest number format"
ADVICE = {
    "float32": "Set RAG_DTYPE=float32: it is faster here.",
    "bfloat16": "Set RAG_DTYPE=bfloat16: it is faster here and takes half of float32's memory.",
    "int8": "RAG_DTYPE=int8 is faster here and takes about half of bfloat16's memory, but changes the model a "
    "little: `rag models quality MODEL --dtype int8` says how much.",
    "int4": "RAG_DTYPE=int4 is faster here and takes about two fifths of bfloat16's memory. Weights are those of "
    "the model's GGUF file; `rag models quality MODEL --dtype int4` says what rounding the rest changes.",
}


def fastest_format(dtype: str, answers: int, blocks: bool = False) -> Iterator[Finding]:
    """What was measured and is to be done; nothing where memory is short.

    Args:
        dtype: the format that is set.
        answers: that are running. Beside them, as on a busy machine, nothing is measured: it would be wrong, and slow
            them down.
        blocks: whether the model can run as int4.
    """
    if answers:
        running = f"{count(answers, 'answer')} {'is' if answers == 1 else 'are'} running"
        yield Finding(WHAT, True, f"not measured, because {running}", "Run `rag doctor` again while nothing is asked.")
        return
    later = f"Keep RAG_DTYPE={dtype} until `rag doctor` has measured while nothing else runs."
    if _load() > MOST_LOAD:
        yield Finding(WHAT, True, "not measured, because the machine is busy", later)
        return
    from decoder.bench import time_formats

    measured = time_formats(blocks)
    if measured is None:
        return
    shown = ", ".join(
        f"{name} {' / '.join(f'{1000 * seconds:.0f}' for seconds in by_rows.values())}"
        for name, by_rows in measured.times.items()
    )
    times = f"ms for 150 million weights and 1 / 8 / 64 rows: {shown}"
    if measured.spread > MOST_SPREAD:
        unsure = f"not known, because the machine was slower in some rounds than in others ({times})"
        yield Finding(WHAT, True, unsure, later)
        return
    best = measured.fastest
    if dtype in (best, "float64"):
        yield Finding(WHAT, True, f"{best} ({times})")
    elif dtype in measured.times and measured.gain(dtype) < LEAST_GAIN:
        yield Finding(WHAT, True, f"{best}, with {dtype} nearly as fast ({times})")
    else:
        yield Finding(WHAT, True, f"{best} ({times})", ADVICE[best])


def _load() -> float:
    """Processes that ran or waited for a core in the last minute, by the number of cores."""
    try:
        return os.getloadavg()[0] / (os.cpu_count() or 1)
    except OSError:
        return 0.0
