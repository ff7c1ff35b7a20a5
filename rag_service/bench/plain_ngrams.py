"""Plain n-gram matching, the baseline of citations: longest shared runs first, each from the best-ranked passage.

Ignores the words around a run.
"""

from __future__ import annotations

from collections.abc import Sequence


def plain_runs(answer: Sequence[int], passages: Sequence[Sequence[int]], size: int) -> list[tuple[int, int, int]]:
    """(start, end, passage) of shared runs of at least `size` tokens, in answer order, not overlapping.

    The longest free run comes first; of equally long ones, the earliest in the answer.
    """
    texts = ["".join(map(chr, ids)) for ids in passages]
    answer_text = "".join(map(chr, answer))
    taken = [False] * len(answer_text)
    runs: list[tuple[int, int, int]] = []
    while run := _longest(answer_text, texts, taken, size):
        runs.append(run)
        taken[run[0] : run[1]] = [True] * (run[1] - run[0])
    return sorted(runs)


def _longest(answer: str, texts: Sequence[str], taken: Sequence[bool], size: int) -> tuple[int, int, int] | None:
    best: tuple[int, int, int] | None = None
    length = size - 1
    for start in range(len(answer)):
        for passage, text in enumerate(texts):
            end = start + length + 1
            while end <= len(answer) and not any(taken[start:end]) and answer[start:end] in text:
                best, length = (start, end, passage), end - start
                end += 1
    return best
