"""Compound words of a question: their parts are looked for, and count less than a word."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator

import pytest
from test_retriever_lexical import empty, put

from retriever.lexical import bm25, compounds
from retriever.lexical.compounds import joined, parts
from retriever.lexical.postings import Tables
from retriever.lexical.terms import tokens

TEXTS = {
    "nl": ["Het nummer van uw paspoort", "De arbeid en de markt", "De bank neemt uw rekening", "over de rug"],
    "de": ["Die Regierung und ihr Kabinett", "Das Haus und die Tür", "Die Haustüren", "Tür an Tür"],
    "": ["bank", "nummer"],
}


@pytest.fixture(scope="module")
def lexicon() -> Iterator[Tables]:
    connection = empty()
    row = 0
    for language, texts in TEXTS.items():
        for text in texts:
            row += 1
            put(connection, row, language, {row: ("", text)})
    yield Tables(connection)
    connection.close()


@pytest.mark.parametrize(
    ("word", "found"),
    [
        ("paspoortnummer", ["paspoort", "nummer"]),
        ("arbeidsmarkt", ["arbeids", "markt"]),  # the stemmer takes the s off
        ("regierungskabinett", ["regierungs", "kabinett"]),
        ("bankrekening", ["bank", "rekening"]),
        ("banknummer", ["bank", "nummer"]),
        ("bankkabinett", []),  # no language has both
        ("haustür", []),  # a part of three letters
        ("paspoortje", []),
        ("nummer", []),
        ("2024nummer", []),
        ("nummer" * 7, []),  # too long to be a word
    ],
)
def test_a_word_parts_where_the_collection_has_both(lexicon: Tables, word: str, found: list[str]) -> None:
    assert parts(lexicon, [word], lexicon.languages()) == found


JOINED = {
    "de": ["Kartenzahlung ist nicht möglich", "Die Kündigungsfrist", "Der Kinderarzt", "Saalmiete", "Die Karte zahlen"],
    "nl": ["De parkeerkosten", "De zaalhuur"],
    "en": ["The timetable"],
}


@pytest.mark.parametrize(
    ("question", "found"),
    [
        ("karte zahlen", ["de:kartenzahl"]),
        ("zahlen karte", ["de:kartenzahl"]),
        ("frist kündigung", ["de:kundigungsfrist"]),
        ("arzt kinder", ["de:kinderarzt"]),
        ("miete saal abend", ["de:saalmiet"]),
        ("miete abend saal", []),  # no neighbours
        ("parkeren kosten", ["nl:parkeerkost"]),
        ("huur zaal", ["nl:zaalhuur"]),
        ("time table", []),  # English writes few as one word
        ("kündigungsfrist", []),
        ("uhr saal", []),  # a word of three letters
    ],
)
def test_neighbours_join_where_the_collection_has_the_compound(question: str, found: list[str]) -> None:
    connection = empty()
    for row, (language, text) in enumerate(((one, text) for one, texts in JOINED.items() for text in texts), 1):
        put(connection, row, language, {row: ("", text)})
    lexicon = Tables(connection)
    assert joined(lexicon, tokens(question), lexicon.languages()) == found
    connection.close()


def test_a_compound_of_two_words_is_found_by_them() -> None:
    connection = empty()
    texts = ["Am Stand gibt es keine Kartenzahlung.", "Die Karte hängt am Tor.", "Viele zahlen den Beitrag spät."]
    for row, text in enumerate(texts, 1):
        put(connection, row, "de", {row: ("", text)})
    best = dict(bm25.scores(Tables(connection), "Kann man mit Karte zahlen?").best(3))
    assert best[1] > 0.4 * best[2]  # without the compound it was not found
    connection.close()


def test_a_compound_of_something_else_does_not_come_first() -> None:
    connection = empty()
    texts = ["Der Kindergarten öffnet um sieben.", "Kinder spielen im Hof und im Garten.", "Der Hof ist groß."]
    for row, text in enumerate(texts, 1):
        put(connection, row, "de", {row: ("", text)})
    assert bm25.scores(Tables(connection), "Dürfen Kinder den Garten benutzen?").best(3)[0][0] == 2
    connection.close()


def test_a_question_has_a_bounded_number_of_parts(lexicon: Tables) -> None:
    hostile = ["".join(pair) for pair in itertools.product("abcdefgh" * 5, repeat=2)]
    words = [first + "x" * 38 for first in dict.fromkeys(hostile)]
    asked: list[int] = []

    class Counting(Tables):
        def counts_of(self, terms: Iterable[str]) -> dict[str, int]:
            asked.append(len(list(terms)))
            return {}

    counting = Counting(lexicon.connection)
    assert parts(counting, words, [f"l{number}" for number in range(30)]) == []
    assert parts(counting, ["bankrekening", *words], ["nl"]) == []
    assert 0 < max(asked) <= compounds.MOST_TERMS


def test_the_rarer_part_is_in_as_many_chunks_as_can_be() -> None:
    connection = empty()
    for row, text in enumerate(["besten", "steller", "besten steller", "beste", "nsteller"], 1):
        put(connection, row, "", {row: ("", text)})
    assert parts(Tables(connection), ["bestensteller"], []) == ["besten", "steller"]


def test_parts_are_found_and_count_less_than_words(lexicon: Tables) -> None:
    found = bm25.scores(lexicon, "Waar staat mijn paspoortnummer?")
    assert found.best(1)[0][0] == 1
    words, compound = bm25.scores(lexicon, "paspoort nummer"), bm25.scores(lexicon, "paspoortnummer")
    assert compound.rows.tolist() == words.rows.tolist()
    assert compound.values == pytest.approx(bm25.PART_SHARE * words.values)
    both = bm25.scores(lexicon, "paspoortnummer paspoort")  # the word itself, and not its part besides
    assert both.of([1])[1] == pytest.approx(bm25.scores(lexicon, "paspoort").of([1])[1] + compound_part(lexicon))


def compound_part(lexicon: Tables) -> float:
    return bm25.PART_SHARE * bm25.scores(lexicon, "nummer").of([1])[1]


def test_chunks_of_a_term_are_counted(lexicon: Tables) -> None:
    assert lexicon.counts_of([":bank", "nl:bank", "de:tur", ":zzz"]) == {":bank": 1, "nl:bank": 1, "de:tur": 2}
