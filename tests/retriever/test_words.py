"""The words that texts are compared by."""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

from retriever.words import Words, split


@pytest.mark.parametrize(
    ("language", "one", "other"),
    [
        ("en", "Which hotels are covered?", "the hotel is what we cover"),
        ("nl", "Welke verzekeringen dekken dit?", "een verzekering dekt dat"),
        ("de", "Welche Kosten werden erstattet?", "die Kosten erstatten wir"),
        ("es", "¿Qué gastos son reembolsables?", "el gasto reembolsable"),
    ],
)
def test_inflections_are_one_word_and_stop_words_none(language: str, one: str, other: str) -> None:
    words = Words(language)
    assert words.content(split(one))
    assert words.content(split(one)) == words.content(split(other))


def test_chinese_gives_pairs() -> None:
    assert split("保修期为两年") == ["保修", "修期", "期为", "为两", "两年"]


def test_numbers_stay_whole_and_always_count() -> None:
    assert split("Pay €1.000,50 by 12:30!") == ["pay", "1.000,50", "by", "12:30"]
    assert Words("en").content(["10", "by"]) == ["10"]


def test_kept_words_count_although_they_are_stop_words() -> None:
    assert Words("en").content(split("not covered")) == ["cover"]
    assert Words("en", {"not"}).content(split("not covered")) == ["not", "cover"]


def test_a_language_without_stemmer_and_stop_words_is_compared_as_it_is() -> None:
    assert Words("xx").content(["fooed", "bars"]) == ["fooed", "bars"]


def test_an_apostrophe_of_either_kind_is_the_same() -> None:
    assert split("don’t") == split("don't") == ["don't"]


def test_threads_do_not_share_a_stemmer() -> None:
    """Snowball's stemmers keep the word that they work on."""
    words = [f"{start}ational{end}izations" for start in ("oper", "nation", "rel") for end in ("", "ly", "ness")] * 40
    expected = Words("en").content(words)
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(8) as pool:
            found = list(pool.map(lambda _: Words("en").content(words), range(64)))
    finally:
        sys.setswitchinterval(before)
    assert all(one == expected for one in found)
