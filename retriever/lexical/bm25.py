"""A question → the chunks that have its words, by BM25 (Robertson and Zaragoza 2009). Knows what a
lexicon holds, not where.

A part of a chunk's score is that of its whole document: a passage need not say again what its document is about.

A word of the question is one term in each language that the collection has; which chunk has it is decided by the
chunk's own language. How rare it is counts over all of them, but no more than in the question's language: "mag" is rare
where few documents are Dutch, and says as little there as in a Dutch collection.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

from retriever.lexical.compounds import joined, parts
from retriever.lexical.lexicon import Entries, Lexicon
from retriever.lexical.stop_words import TELLING, stop_words
from retriever.lexical.terms import MAX_CHARS, MAX_WORDS, is_lone, stem, term, tokens
from retriever.moments import Moments

K1 = 1.2
"""How soon further occurrences of a word stop counting."""
B = 0.75
"""How much long chunks and documents are held back."""
DOCUMENT_SHARE = 0.4
"""How much of a chunk's score is that of its document."""
USUAL = 10
"""Chunks that a stop word counts as being in besides those that have it: few chunks tell little of how usual it is."""
LEANING = 5
"""As how many more chunks of a language all chunks count, where the share of those that have a word is estimated."""
PART_SHARE = 0.5
"""A part of a compound word counts as much of a word of the question."""
JOINED_SHARE = 0.5
"""A compound of two words of the question counts as much of one: it may mean something else."""


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
    matches = [(share, entries["row"].astype(np.int64), entries) for share, entries in _matches(lexicon, question)]
    if not matches:
        return Scores(np.zeros(0, np.int64), np.zeros(0), Moments(chunks))
    counts = [entries["count"].astype(np.float64) for _, _, entries in matches]
    longest = max(int(entries["length"].max()) for _, _, entries in matches)
    by_length = _held(np.arange(longest + 1), words / chunks)
    own = _Texts(chunks, 1 + max(int(rows.max()) for _, rows, _ in matches))
    for (share, rows, entries), count in zip(matches, counts, strict=True):
        own.add(rows, share, count, by_length[entries["length"]])
    hit = np.flatnonzero(own.scores > 0)
    values = own.scores[hit]
    documents = lexicon.document_lengths()
    if len(documents) < chunks:  # else each chunk is its document
        held = _held(documents.lengths, words / len(documents))
        of_row = documents.places(len(own.scores))
        whole = _Texts(len(documents), len(documents))
        for (share, rows, _), count in zip(matches, counts, strict=True):
            places, sums = _summed(of_row[rows], count)
            whole.add(places, share, sums, held[places])
        values = (1 - DOCUMENT_SHARE) * values + DOCUMENT_SHARE * whole.scores[of_row[hit]]
    return Scores(hit, values, Moments.of(values, chunks))


class _Texts:
    """The scores of chunks, or of documents, word by word.

    Args:
        count: how many there are.
        places: how many scores are kept.
    """

    def __init__(self, count: int, places: int) -> None:
        self._count = count
        self.scores = np.zeros(places)

    def add(
        self, places: NDArray[np.int64], share: float, counts: NDArray[np.float64], held: NDArray[np.float64]
    ) -> None:
        """Count a word in: the texts that have it, each once, how much it counts, how often they have it, and how much
        their length holds them back."""
        self.scores[places] += share * _rarity(self._count, len(places)) * counts * (K1 + 1) / (counts + held)


def _rarity(texts: float, having: float) -> float:
    """How much a word counts by how many of the texts have it."""
    return math.log(1 + (texts - having + 0.5) / (having + 0.5))


def _held(lengths: NDArray[np.integer | np.floating], average: float) -> NDArray[np.float64]:
    """How much texts of these lengths are held back."""
    return (K1 * (1 - B + B * lengths / average)).astype(np.float64, copy=False)


def _summed(places: NDArray[np.int64], counts: NDArray[np.float64]) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Each place once, with the sum of its counts; equal places come one after the other."""
    begins = np.ones(len(places), dtype=bool)
    np.not_equal(places[1:], places[:-1], out=begins[1:])
    if begins.all():
        return places, counts
    first = np.flatnonzero(begins)
    return places[first], np.add.reduceat(counts, first)


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


def _matches(lexicon: Lexicon, question: str) -> Iterable[tuple[float, Entries]]:
    """For each different word of the question, and each part of one, how much it counts and the entries of the chunks
    that have it.

    A document's entries for a word come one after the other: it has one language, so one of the word's terms.
    """
    words = list(dict.fromkeys(tokens(question[:MAX_CHARS])))[:MAX_WORDS]
    spoken = lexicon.languages()
    seen: set[str] = set()
    asked = [*((1.0, word) for word in words), *((PART_SHARE, part) for part in parts(lexicon, words, spoken))]
    held_back = _held_back(lexicon, [word for _, word in asked], spoken)
    for share, word in asked:
        keys = [key for key in _terms(word, spoken) if key not in seen]
        seen.update(keys)
        prefixes = [f":{word}"] if is_lone(word) else []
        entries = lexicon.entries_of([] if prefixes else keys, prefixes)
        if len(entries):
            yield share * held_back.get(word, 1.0), _joined(entries) if prefixes else entries
    telling = [word for word in words if not any(word in _usual(language) for language in spoken)]
    for key in joined(lexicon, telling, spoken):
        if key not in seen:
            yield JOINED_SHARE, lexicon.entries_of([key])


def _held_back(lexicon: Lexicon, words: Sequence[str], spoken: Sequence[str]) -> dict[str, float]:
    """How much less a word counts than by the share of all chunks that have it: above 0, up to 1.

    A stop word counts as if `USUAL` more chunks were there and had it. Among several languages, a word of the
    question's is as usual as in that language: the one in which most of the words are most usual; the chunks with
    its most usual one stand for all of its chunks. Words whose terms have no language count in full.
    """
    if not words or not spoken:
        return {}
    terms_of = {word: {one: key for one in spoken if not (key := term(word, one)).startswith(":")} for word in words}
    counts = lexicon.counts_of({key for keys in terms_of.values() for key in keys.values()})
    having = {word: {one: counts.get(key, 0) for one, key in keys.items()} for word, keys in terms_of.items()}
    sizes = {one: max(of.get(one, 0) for of in having.values()) for one in spoken}
    votes = Counter(max(of, key=lambda one: of[one]) for of in having.values() if any(of.values()))
    own = max(spoken, key=lambda one: (votes[one], sizes[one]))  # most words are most usual there
    chunks, _ = lexicon.totals()
    factors = {}
    for word, of in having.items():
        if total := sum(of.values()):
            most = max(of, key=lambda one: of[one])
            usual = USUAL if word in _usual(most) else 0
            texts, there = float(chunks), float(total)
            if len(spoken) > 1 and most == own:
                texts, there = sizes[most] + LEANING, of[most] + LEANING * total / chunks
            factors[word] = min(_rarity(texts + usual, there + usual) / _rarity(chunks, total), 1.0)
    return factors


@cache
def _usual(language: str) -> frozenset[str]:
    """The stop words of a language as `tokens` writes words, without those that tell things apart."""

    def written(words: Iterable[str]) -> set[str]:
        return {parted[0] for word in words if len(parted := tokens(word)) == 1}

    return frozenset(written(stop_words(language)) - written(TELLING))


def _joined(entries: Entries) -> Entries:
    """Entries of several terms as those of one: a chunk that has two of them has it as often as both."""
    _, first, places = np.unique(entries["row"], return_index=True, return_inverse=True)
    joined: Entries = entries[first].copy()
    joined["count"] = np.minimum(np.bincount(places, entries["count"]), 255)
    return joined


def _terms(word: str, spoken: Iterable[str]) -> list[str]:
    return list(dict.fromkeys([f":{word}", *(term(word, language) for language in spoken)]))


def _common(word: str, other: str) -> str:
    """What two words begin with alike."""
    size = next((n for n, (one, two) in enumerate(zip(word, other, strict=False)) if one != two), None)
    return word[: min(len(word), len(other)) if size is None else size]
