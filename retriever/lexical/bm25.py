"""A question → the chunks that have its words, by BM25 (Robertson and Zaragoza 2009). Knows what a
lexicon holds, not where.

A word of the question is one term in each language that the collection has; which chunk has it is decided by the
chunk's own language, and how rare it is counts over all of them.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from retriever.lexical.lexicon import Entries, Lexicon
from retriever.lexical.terms import MAX_CHARS, MAX_WORDS, is_lone, stem, term, tokens
from retriever.moments import Moments

K1 = 1.2
"""How soon further occurrences of a word stop counting."""
B = 0.75
"""How much long chunks are held back."""


@dataclass(frozen=True, slots=True)
class Scores:
    """Those of all chunks for a question; chunks without any of its words have 0 and are left out.

    Attributes:
        rows: int64 [n], ascending.
        values: float64 [n], above 0.
    """

    rows: NDArray[np.int64]
    values: NDArray[np.float64]
    moments: Moments

    def best(self, depth: int, allowed: NDArray[np.int64] | None = None) -> list[tuple[int, float]]:
        """The `depth` best as (row, score), best first, ties by row; only among `allowed` rows if given."""
        rows, values = self.rows, self.values
        if allowed is not None:
            passes = np.zeros(int(max(rows.max(initial=0), allowed.max(initial=0))) + 1, dtype=bool)
            passes[allowed] = True
            kept = passes[rows]
            rows, values = rows[kept], values[kept]
        if len(rows) > depth:
            kept = values >= np.partition(values, -depth)[-depth]
            rows, values = rows[kept], values[kept]
        order = np.lexsort((rows, -values))[:depth]
        return [(int(rows[n]), float(values[n])) for n in order]

    def of(self, rows: Iterable[int]) -> dict[int, float]:
        """The scores of some chunks."""
        wanted = list(rows)
        if not len(self.rows):
            return dict.fromkeys(wanted, 0.0)
        places = np.minimum(np.searchsorted(self.rows, wanted), len(self.rows) - 1)
        return {
            row: float(self.values[place]) if self.rows[place] == row else 0.0
            for row, place in zip(wanted, places, strict=True)
        }


def scores(lexicon: Lexicon, question: str) -> Scores:
    """The scores of all chunks for a question."""
    chunks, words = lexicon.totals()
    average = words / chunks if chunks else 1.0
    rows, values = [np.zeros(0, np.int64)], [np.zeros(0)]
    for entries in _matches(lexicon, question):
        rarity = math.log(1 + (chunks - len(entries) + 0.5) / (len(entries) + 0.5))
        count = entries["count"].astype(np.float64)
        held = K1 * (1 - B + B * entries["length"] / average)
        rows.append(entries["row"].astype(np.int64))
        values.append(rarity * count * (K1 + 1) / (count + held))
    found = np.concatenate(rows)
    if not len(found):
        return Scores(found, np.zeros(0), Moments(chunks))
    whole: NDArray[np.float64] = np.bincount(found, weights=np.concatenate(values)).astype(np.float64)
    hit = np.flatnonzero(whole)
    return Scores(hit, whole[hit], Moments.of(whole[hit], chunks))


def containing(lexicon: Lexicon, words: list[str], together: bool) -> list[int]:
    """Rows of all chunks that may have all of `tokens`' words, ascending; each, or with `together` the last, goes on.

    A chunk has the stems of the words or of words that begin with them; the caller compares the words themselves.
    """
    common: NDArray[np.int64] | None = None
    spoken = lexicon.languages()
    for number, word in enumerate(words):
        if together and number < len(words) - 1 and not is_lone(word):
            entries = lexicon.entries_of(_terms(word, spoken))
        else:
            starts = {_common(word, stem(word, language)) for language in spoken} | {word}
            prefixes = [f":{word}", *(f"{language}:{start}" for language in spoken for start in starts)]
            entries = lexicon.entries_of((), prefixes)
        rows = np.unique(entries["row"].astype(np.int64))
        common = rows if common is None else np.intersect1d(common, rows, assume_unique=True)
        if not len(common):
            return []
    return [] if common is None else common.tolist()


def _matches(lexicon: Lexicon, question: str) -> Iterable[Entries]:
    """For each different word of the question, the entries of the chunks that have it."""
    words = list(dict.fromkeys(tokens(question[:MAX_CHARS])))[:MAX_WORDS]
    spoken = lexicon.languages()
    seen: set[str] = set()
    for word in words:
        keys = [key for key in _terms(word, spoken) if key not in seen]
        seen.update(keys)
        prefixes = [f":{word}"] if is_lone(word) else []
        entries = lexicon.entries_of([] if prefixes else keys, prefixes)
        if len(entries):
            yield entries


def _terms(word: str, spoken: Iterable[str]) -> list[str]:
    return list(dict.fromkeys([f":{word}", *(term(word, language) for language in spoken)]))


def _common(word: str, other: str) -> str:
    """What two words begin with alike."""
    size = next((n for n, (one, two) in enumerate(zip(word, other, strict=False)) if one != two), None)
    return word[: min(len(word), len(other)) if size is None else size]
