"""Compound words: `paspoortnummer` is looked for as `paspoort` and `nummer`, too, and `nummer … paspoort` as
`paspoortnummer`.

A word is taken for two if the collection has both, in one language; of several ways to part it, the one whose rarer
part is in the most chunks (Koehn and Knight 2003, by the rarer part instead of the mean). No dictionary and no rule by
language: elements that join two words (`arbeid-s-markt`) are those that stemmers take off. Two words are joined with
such elements between them if the collection has the compound.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise

from retriever.lexical.lexicon import Lexicon
from retriever.lexical.terms import stem, term

LEAST = 4
"""Letters of a part. With 3, Dutch and German words part at syllables."""
MOST = 40
"""Letters of a word that is parted."""
MOST_TERMS = 4096
"""Terms that are looked up for a question; words behind that are not parted."""
JOINING = frozenset(("da", "de", "et", "fi", "hu", "nl", "no", "sv"))
"""Languages that write compounds as one word."""
LINKS = ("", "s", "n", "en", "e", "er")
"""What joins two words."""
_ENDINGS = ("en", "e", "n")
"""Of a word that a compound has without them."""
_MADE = ("ung", "ing")
"""What makes a noun of a verb."""
_VOWELS = "aeiou"


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


def joined(lexicon: Lexicon, words: Sequence[str], spoken: Sequence[str]) -> list[str]:
    """The terms of compounds of two of `tokens`' words that the collection has, each once.

    Args:
        words: in the question's order, without those that say nothing by themselves; neighbours are joined.
        spoken: the languages of the collection.
    """
    spoken = [language for language in spoken if language in JOINING]
    long = [word for word in words if word.isalpha() and LEAST <= len(word) <= MOST]
    pairs = [pair for one in pairwise(long) for pair in (one, one[::-1])]
    ends = {(word, language): _ends(word, language) for word in long for language in spoken}
    made = dict.fromkeys(
        f"{language}:{begin}{link}{end}"
        for first, end_of in pairs
        for language in spoken
        for begin in _begins(first)
        for link in LINKS
        for end in ends[end_of, language]
    )
    asked = {term(word, language) for word in words for language in spoken}
    wanted = [key for key in made if key not in asked][:MOST_TERMS]
    counts = lexicon.counts_of(wanted) if wanted else {}
    return [key for key in wanted if key in counts]


def _begins(word: str) -> list[str]:
    """A word as compounds begin with it: kart of Karte, park and parkeer of parkeren."""
    bare = _bare(word)
    doubled = [f"{one[:-1]}{one[-2]}{one[-1]}" for one in bare if one[-2] in _VOWELS and one[-1] not in _VOWELS]
    return [word, *bare, *doubled]


def _ends(word: str, language: str) -> list[str]:
    """The stems of words that compounds of it end with: zahlung of zahlen."""
    bare = _bare(word)
    return list(dict.fromkeys([stem(word, language), *bare, *(f"{one}{made}" for one in bare for made in _MADE)]))


def _bare(word: str) -> list[str]:
    bare = (word.removesuffix(ending) for ending in _ENDINGS if word.endswith(ending))
    return [one for one in bare if len(one) >= LEAST]


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
