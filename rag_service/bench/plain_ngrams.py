"""Plain n-gram matching, to compare citations with: longest shared runs first, each from the best-ranked passage.

Knows token ids; what stands around a run has no say in where it is from.
"""

from __future__ import annotations

from collections.abc import Sequence


def plain_runs(answer: Sequence[int], passages: Sequence[Sequence[int]], size: int) -> list[tuple[int, int, int]]:
    """(start, end, passage) of shared runs of at least `size` tokens, in answer order, not overlapping.

    The longest run that is free goes first; of equal ones the earliest in the answer.
    """
    texts = ["".join(map(chr, ids)) for ids in passages]
    own = "".join(map(chr, answer))
    taken = [False] * len(own)
    runs: list[tuple[int, int, int]] = []
    while found := _longest(own, texts, taken, size):
        runs.append(found)
        taken[found[0] : found[1]] = [True] * (found[1] - found[0])
    return sorted(runs)


def _longest(own: str, texts: Sequence[str], taken: Sequence[bool], size: int) -> tuple[int, int, int] | None:
    best: tuple[int, int, int] | None = None
    length = size - 1
    for start in range(len(own)):
        for passage, text in enumerate(texts):
            end = start + length + 1
            while end <= len(own) and not any(taken[start:end]) and own[start:end] in text:
                best, length = (start, end, passage), end - start
                end += 1
    return best
