"""The words of a text that say something: stop words are left out, the others stemmed.

For comparing texts. Stop words (stopwordsiso) and stemmers (Snowball) go by language; scripts without spaces give
overlapping pairs of characters. Numbers always count. Knows languages' codes; knows no index.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache
from typing import Any

from retriever.lexical import analyze

_WORD = re.compile(r"\d+(?:[.,:]\d+)*|[^\W\d_]+(?:['’][^\W\d_]+)?|\w+")
_ENGLISH = "en"
"""Its stop words count in every language: questions and documents are full of them."""


def split(text: str) -> list[str]:
    """The words of a text in order, in lower case; 1.000,50 is one word, and so is don't."""
    return _WORD.findall(analyze(text).casefold().replace("’", "'"))


class Words:
    """Content words in one language. Not for several threads at once, because Snowball's stemmers are not.

    Args:
        language: an ISO 639-1 code; of one without stop words and stemmer, words are compared as they are.
        kept: words that count although they are stop words.
    """

    def __init__(self, language: str, kept: Iterable[str] = ()) -> None:
        self._stops = (_stops(language) | _stops(_ENGLISH)) - frozenset(kept)
        self._stemmer = _stemmer(language)
        self._stems: dict[str, str] = {}

    def content(self, words: Iterable[str]) -> list[str]:
        """The stems of words, as `split` gives them, in order and without stop words."""
        return [self._stem(word) for word in words if not self._stop(word)]

    def _stem(self, word: str) -> str:
        if word not in self._stems:
            self._stems[word] = word if self._stemmer is None else self._stemmer.stemWord(word)
        return self._stems[word]

    def _stop(self, word: str) -> bool:
        return word in self._stops and not word[0].isdigit()


@cache
def _stops(language: str) -> frozenset[str]:
    import stopwordsiso

    words = stopwordsiso.stopwords(language) if stopwordsiso.has_lang(language) else ()
    # of scripts without spaces, only the words that are themselves a sign or a pair can occur
    return frozenset(word.casefold().replace("’", "'") for word in words)


def _stemmer(language: str) -> Any:
    """A stemmer of Snowball's for a language; None if there is none."""
    import snowballstemmer

    name = _NAMES.get(language)
    return snowballstemmer.stemmer(name) if name else None


_NAMES = {
    "ar": "arabic",
    "ca": "catalan",
    "cs": "czech",
    "da": "danish",
    "de": "german",
    "el": "greek",
    "en": "english",
    "es": "spanish",
    "et": "estonian",
    "eu": "basque",
    "fi": "finnish",
    "fr": "french",
    "ga": "irish",
    "hi": "hindi",
    "hu": "hungarian",
    "hy": "armenian",
    "id": "indonesian",
    "it": "italian",
    "lt": "lithuanian",
    "ne": "nepali",
    "nl": "dutch",
    "no": "norwegian",
    "pl": "polish",
    "pt": "portuguese",
    "ro": "romanian",
    "ru": "russian",
    "sr": "serbian",
    "sv": "swedish",
    "ta": "tamil",
    "tr": "turkish",
}
"""Snowball's names of languages."""
