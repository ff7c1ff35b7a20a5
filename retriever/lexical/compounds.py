"""The parts of a question's compound words: `paspoortnummer` is looked for as `paspoort` and `nummer`, too.

A word is taken for two if the collection has both, in one language; of several ways to part it, the one whose rarer
part is in the most chunks (Koehn and Knight 2003, by the rarer part instead of the mean). No dictionary and no rule by
language: elements that join two words (`arbeid-s-markt`) are those that stemmers take off.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from retriever.lexical.lexicon import Lexicon
from retriever.lexical.terms import term

LEAST = 4
"""Letters of a part. With 3, Dutch and German words part at syllables."""
MOST = 40
"""Letters of a word that is parted."""
MOST_TERMS = 4096
"""Terms that are looked up for a question; words behind that are not parted."""


def parts(lexicon: Lexicon, words: Iterable[str], spoken: Sequence[str]) -> list[str]:
    """The parts of those of `tokens`' words that the collection knows both parts of, each once, in order.

    Args:
        spoken: the languages of the collection.
    """
    languages = ["", *spoken]
    room = MOST_TERMS // (2 * len(languages))
    splits: dict[str, list[tuple[str, str]]] = {}
    for word in words:
        pairs = list(_splits(word))
        room -= len(pairs)
        if room < 0:
            break
        splits[word] = pairs
    wanted = {term(part, one) for pairs in splits.values() for pair in pairs for part in pair for one in languages}
    counts = lexicon.counts_of(wanted) if wanted else {}
    found = (_likeliest(pairs, languages, counts) for pairs in splits.values())
    return list(dict.fromkeys(part for pair in found for part in pair))


def _splits(word: str) -> Iterator[tuple[str, str]]:
    if word.isalpha() and len(word) <= MOST:
        for end in range(LEAST, len(word) - LEAST + 1):
            yield word[:end], word[end:]


def _likeliest(
    pairs: Sequence[tuple[str, str]], languages: Sequence[str], counts: Mapping[str, int]
) -> tuple[str, ...]:
    best: tuple[str, ...] = ()
    most = 0
    for pair in pairs:
        for language in languages:
            rarer = min(counts.get(term(part, language), 0) for part in pair)
            if rarer > most:
                best, most = pair, rarer
    return best
