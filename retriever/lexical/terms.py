"""Text → the terms that the lexical index holds. Knows languages and scripts; knows no index.

A word's term is its stem in the document's language, marked with that language (`en:polici`); numbers, words of
languages without a stemmer and scripts without spaces have terms without a language (`:2024`). A question's word is
looked up in every language that the collection has, so nobody has to know the question's language, and documents in
several languages are found side by side.

Scripts without spaces (Chinese, Japanese, Thai, …) give overlapping pairs of characters.
"""

from __future__ import annotations

import threading
import unicodedata
from collections.abc import Iterable
from functools import cache, lru_cache
from typing import Any

import regex

MAX_WORDS = 64
"""The search uses this many different words of a question, the first ones."""
MAX_CHARS = 20_000
"""Characters of a question that are read."""

_UNSPACED = (
    "\u0e00-\u0eff"  # Thai, Lao
    "\u1000-\u109f\u1780-\u17ff"  # Myanmar, Khmer
    "\u3040-\u30ff\u31f0-\u31ff"  # kana
    "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"  # Han
    "\U00020000-\U0003ffff"
)
_UNSPACED_RUN = regex.compile(f"[{_UNSPACED}]+")
# Marks are part of words: without them the vowel signs of Thai, Hindi, … would cut every word
_WORD = regex.compile(r"[\p{L}\p{N}\p{M}\p{Co}]+")
_ACCENTS = regex.compile(r"(?<=[\p{Latin}\p{Greek}])[\u0300-\u036f]+")


def spaced(text: str) -> str:
    """`text` with the runs of unspaced scripts as overlapping pairs, separated by spaces."""
    if text.isascii():
        return text
    return str(_UNSPACED_RUN.sub(lambda run: " " + " ".join(_pairs(run[0])) + " ", text))


def tokens(text: str) -> list[str]:
    """The words and pairs of a text in order, in lower case; Latin and Greek letters without accents."""
    if not text.isascii():
        plain = _ACCENTS.sub("", unicodedata.normalize("NFKD", text))
        text = spaced(unicodedata.normalize("NFC", plain))
    return list(_WORD.findall(text.casefold()))


def terms(words: Iterable[str], language: str) -> list[str]:
    """The term of each word of a text in `language` (ISO 639-1)."""
    return [term(word, language) for word in words]


def term(word: str, language: str) -> str:
    """The term of one of `tokens`' words."""
    if language not in STEMMERS or not word[0].isalpha() or _UNSPACED_RUN.match(word):
        return f":{word}"
    return f"{language}:{stem(word, language)}"


def is_lone(word: str) -> bool:
    """Whether a word is a single sign of an unspaced script, which is looked for in the pairs that begin with it."""
    return len(word) == 1 and _UNSPACED_RUN.match(word) is not None


@lru_cache(maxsize=1 << 18)
def stem(word: str, language: str) -> str:
    """The word's stem by Snowball; the word itself if there is no stemmer for the language."""
    if language not in STEMMERS:
        return word
    with _lock:  # Snowball's stemmers are not for several threads
        return str(_stemmer(language).stemWord(word))


_lock = threading.Lock()


@cache
def _stemmer(language: str) -> Any:
    import snowballstemmer

    return snowballstemmer.stemmer(STEMMERS[language])


def _pairs(run: str) -> list[str]:
    return [run[index : index + 2] for index in range(len(run) - 1)] or [run]


STEMMERS = {
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
