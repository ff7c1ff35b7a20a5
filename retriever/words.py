"""The words of a text that say something: stop words are left out, the others stemmed.

For comparing texts. Stop words (stopwordsiso) and stemmers (Snowball) go by language; scripts without spaces give
overlapping pairs of characters. Numbers always count. Knows languages' codes; knows no index.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache

from retriever.lexical.stop_words import stop_words
from retriever.lexical.terms import spaced, stem

_WORD = re.compile(r"\d+(?:[.,:]\d+)*|[^\W\d_]+(?:['’][^\W\d_]+)?|\w+")
_ENGLISH = "en"
"""Its stop words count in every language: questions and documents are full of them."""
_MOST = 1 << 17
"""Words whose stems are remembered, for each language."""


def split(text: str) -> list[str]:
    """The words of a text in order, in lower case; 1.000,50 is one word, and so is don't."""
    return _WORD.findall(spaced(text).casefold().replace("’", "'"))


class Words:
    """Content words in one language.

    Args:
        language: an ISO 639-1 code; of one without stop words and stemmer, words are compared as they are.
        kept: words that count although they are stop words.
    """

    def __init__(self, language: str, kept: Iterable[str] = ()) -> None:
        self._stems = _stems(language, frozenset(kept))

    def content(self, words: Iterable[str]) -> list[str]:
        """The stems of words, as `split` gives them, in order and without stop words."""
        stems = self._stems
        return [found for word in words if (found := stems[word])]


class _Stems(dict[str, str]):
    """The stem of each word that was asked for; "" of a stop word."""

    def __init__(self, language: str, stops: frozenset[str]) -> None:
        super().__init__()
        self._language = language
        self._stops = stops

    def __missing__(self, word: str) -> str:
        found = "" if word in self._stops and not word[0].isdigit() else stem(word, self._language)
        if len(self) >= _MOST:
            self.clear()
        self[word] = found
        return found


@cache
def _stems(language: str, kept: frozenset[str]) -> _Stems:
    return _Stems(language, (stop_words(language) | stop_words(_ENGLISH)) - kept)
