"""The order in which a run sees its data. The seed fixes it, so a resumed run continues where it stopped."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence

from decoder.training.eagle.features import Example

_FIRST = 8
"""Shards visited once before any is visited again: a head memorises a few shards that it sees many times."""
_AGAIN = 6
"""Earlier shards visited after each new one."""


def visits(shards: int, seed: int) -> Iterator[int]:
    """Shard numbers without end: the first shards, then each new shard followed by earlier ones, then all again."""
    source = random.Random(seed)
    for number in range(shards):
        yield number
        for _ in range(_AGAIN if number >= _FIRST else 0):
            yield source.randrange(number + 1)
    while True:
        yield from source.sample(range(shards), shards)


def batches(examples: Sequence[Example], size: int, seed: int) -> list[list[Example]]:
    """A shard's examples, shuffled, in batches of about `size` positions."""
    order = list(examples)
    random.Random(seed).shuffle(order)
    total = sum(example.positions for example in order)
    count = max(1, round(total / size))
    parts: list[list[Example]] = [[] for _ in range(count)]
    seen = 0
    for example in order:
        parts[min(seen * count // max(total, 1), count - 1)].append(example)
        seen += example.positions
    return [sorted(part, key=lambda example: len(example.tokens)) for part in parts if part]
