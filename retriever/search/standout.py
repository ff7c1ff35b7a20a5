"""How far the best candidate of a search stands out: whether the collection has an answer at all. Pure.

A chunk's likeness to a question is its cosine plus the share of the question's content words it has, weighed by how
rare they are among the candidates. A question that some chunk answers has one that is much more like it than the
others; a question about something else has many that are about equally like it.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from typing import TypeVar

from retriever.words import Words, split

Key = TypeVar("Key", bound=Hashable)

DEPTH = 30
"""Best candidates of each list that are compared."""
PLACE = 6
"""The candidate that the best one is compared with."""


def standout(question: str, texts: Mapping[Key, str], dense: Sequence[tuple[Key, float]], words: Words) -> float:
    """How much more the best candidate is like the question than the `PLACE`-th, or than the last if there are fewer.

    Likeness is a cosine (-1 to 1) plus a share of words (0 to 1).

    Args:
        texts: the candidates' texts with their headings; at least two.
        dense: (candidate, cosine), best first. A candidate that is not there counts as much as the last one.
    """
    asked = set(words.content(split(question)))
    contents = {row: set(words.content(set(split(text)))) & asked for row, text in texts.items()}
    counts = Counter(word for content in contents.values() for word in content)
    weights = {word: math.log(1 + len(texts) / (counts[word] + 0.5)) for word in asked}
    whole = sum(weights.values()) or 1.0
    cosines = dict(dense)
    lowest = min(cosines.values(), default=0.0)
    shares = {row: sum(weights[word] for word in content) / whole for row, content in contents.items()}
    likeness = sorted((cosines.get(row, lowest) + share for row, share in shares.items()), reverse=True)
    return likeness[0] - likeness[min(PLACE, len(likeness)) - 1]
