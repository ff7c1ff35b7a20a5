"""In which order a run sees its data: fixed by the seed, so that a resumed run goes on where it was."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence

from decoder.training.eagle.features import Example

_FIRST = 8
"""Shards visited once before any is visited again: a few shards seen many times are learned by heart."""
_AGAIN = 6
"""Shards visited again behind each new one."""


def visits(shards: int, seed: int) -> Iterator[int]:
    """Numbers of shards, without end: some new ones, more each followed by earlier ones, then all again and again."""
    source = random.Random(seed)
    for number in range(shards):
        yield number
        for _ in range(_AGAIN if number >= _FIRST else 0):
            yield source.randrange(number + 1)
    while True:
        yield from source.sample(range(shards), shards)


def batches(examples: Sequence[Example], size: int, seed: int) -> list[list[Example]]:
    """A shard's examples shuffled, in about equal batches of about `size` positions."""
    order = list(examples)
    random.Random(seed).shuffle(order)
    total = sum(example.positions for example in order)
    count = max(1, round(total / size))
    made: list[list[Example]] = [[] for _ in range(count)]
    seen = 0
    for example in order:
        made[min(seen * count // max(total, 1), count - 1)].append(example)
        seen += example.positions
    return [sorted(part, key=len_of) for part in made if part]


def len_of(example: Example) -> int:
    return len(example.tokens)
