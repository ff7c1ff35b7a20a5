"""The lexical index: words in any script and language, exact BM25, and nothing left of what is deleted."""

from __future__ import annotations

import math
import sqlite3
from collections import Counter
from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from retriever.lexical import bm25, postings
from retriever.lexical.postings import NewText
from retriever.lexical.terms import MAX_WORDS, tokens

CHUNKS = "CREATE TABLE chunks (row INTEGER PRIMARY KEY, document INTEGER NOT NULL)"


def empty() -> sqlite3.Connection:
    connection = sqlite3.connect(":memory:")
    connection.executescript(f"{CHUNKS}; {postings.SCHEMA};")
    return connection


def put(connection: sqlite3.Connection, document: int, language: str, texts: dict[int, tuple[str, str]]) -> None:
    connection.executemany("INSERT INTO chunks VALUES (?, ?)", [(row, document) for row in texts])
    postings.add(connection, document, language, [NewText(row, *parts) for row, parts in texts.items()])


@pytest.fixture(scope="module")
def words() -> Iterator[sqlite3.Connection]:
    connection = empty()
    put(connection, 1, "en", {1: ("Zoo", "The quick brown fox AND the lazy dog")})
    put(connection, 2, "fr", {2: ("Café", "naïve résumé, über alles")})
    put(connection, 3, "ja", {3: ("", "日本語の文章を検索する")})
    put(connection, 4, "th", {4: ("", "ภาษาไทยไม่มีช่องว่าง")})
    put(connection, 5, "hi", {5: ("", "हिन्दी में खोज")})
    put(connection, 6, "en", {6: ("", "fox near a NEAR(dog) text")})
    put(connection, 7, "nl", {7: ("", "De vergoedingen voor fietsen"), 8: ("", "1.000,50 euro per fiets")})
    yield connection
    connection.close()


def rows(connection: sqlite3.Connection, question: str) -> list[int]:
    return [row for row, _ in bm25.scores(postings.Tables(connection), question).best(10)]


@pytest.mark.parametrize(
    ("question", "found"),
    [
        ("quick", [1]),
        ("CAFE", [2]),
        ("naive resume uber", [2]),
        ("文章", [3]),
        ("検索する", [3]),
        ("文", [3]),
        ("ภาษา", [4]),
        ("हिन्दी", [5]),
        ("zoo", [1]),
        ("nothing of the kind", [1]),
        ("unfindable", []),
        ("dogs", [6, 1]),  # stems, by the document's language
        ("welke vergoeding voor een fiets?", [7, 8]),
        ("vergoedingen", [7]),
        ("1.000,50", [8]),
    ],
)
def test_words_are_found(words: sqlite3.Connection, question: str, found: list[int]) -> None:
    assert rows(words, question) == found


@pytest.mark.parametrize(
    "question",
    [
        '"',
        '""',
        '"fox',
        "fox*",
        "*",
        "AND",
        "OR",
        "NOT fox",
        "fox AND",
        "(",
        ")",
        "((((",
        "fox)",
        "NEAR(fox dog)",
        "text:fox",
        "heading : zoo",
        "^fox",
        "fox + dog",
        "-fox",
        "fox\0dog",
        "{text}: fox",
        "'; DROP TABLE lexical; --",
        "a.b.c",
        "?!",
        "_",
        "'" * 100,
        '"fox" OR "dog" AND NOT',
        "😀",
        "\ufeff",
        "col\\fox",
    ],
)
def test_hostile_questions_are_only_words(words: sqlite3.Connection, question: str) -> None:
    found = rows(words, question)
    assert ((1 in found) and (6 in found)) == ("fox" in question)


@settings(max_examples=200, deadline=None)
@given(question=st.text(max_size=80))
def test_no_question_is_an_error(words: sqlite3.Connection, question: str) -> None:
    assert set(rows(words, question)) <= set(range(1, 9))


def test_long_questions_are_bounded() -> None:
    connection = empty()
    put(connection, 1, "", {n: ("", f"w{n}") for n in range(1, 100)})
    assert rows_of(connection, " ".join(f"w{n}" for n in range(1, 100))) == set(range(1, MAX_WORDS + 1))


def rows_of(connection: sqlite3.Connection, question: str) -> set[int]:
    return {row for row, _ in bm25.scores(postings.Tables(connection), question).best(1000)}


def test_questions_without_words_find_nothing(words: sqlite3.Connection) -> None:
    assert rows(words, "?! … –") == []


def test_scores_are_bm25() -> None:
    connection = empty()
    texts = {1: "a b b c", 2: "b c c c d", 3: "d", 4: "e e e e e e e e"}
    for row, text in texts.items():
        put(connection, row, "", {row: ("", text)})
    scores = bm25.scores(postings.Tables(connection), "b c zzz b")
    expected = by_hand(texts, ["b", "c"])
    assert scores.of(texts) == pytest.approx(expected)
    everyone = np.array(list(expected.values()))
    assert scores.moments.mean == pytest.approx(everyone.mean())
    assert scores.moments.deviation == pytest.approx(everyone.std())
    assert [row for row, _ in scores.best(1, np.array([2, 3]))] == [2]


def by_hand(texts: dict[int, str], question: list[str]) -> dict[int, float]:
    average = np.mean([len(text.split()) for text in texts.values()])
    expected = dict.fromkeys(texts, 0.0)
    for word in question:
        having = [row for row, text in texts.items() if word in text.split()]
        rarity = math.log(1 + (len(texts) - len(having) + 0.5) / (len(having) + 0.5))
        for row in having:
            count, length = texts[row].split().count(word), len(texts[row].split())
            expected[row] += rarity * count * 2.2 / (count + 1.2 * (0.25 + 0.75 * length / average))
    return expected


def test_everyday_words_do_not_outweigh_the_rare_one() -> None:
    """Few chunks tell little of how usual a word is, and those of a language that few documents have even less."""
    connection = empty()
    asking = ["Mag ik sproeien?", "Mag ik een kas bouwen?", "Mag ik bijen houden?"]
    put(connection, 1, "nl", {row: (heading, "Ja, dat mag.") for row, heading in enumerate(asking, 1)})
    put(connection, 2, "nl", {4: ("", "Paardenmest komt op 16 mei. De winkel is dicht.")})
    for row in range(5, 15):
        put(connection, row, "en", {row: ("", f"The shop sells tools and soil, and number {row} is the price.")})
    question = "Wanneer wordt er paardenmest geleverd en hoeveel mag ik er meenemen?"
    lexicon = postings.Tables(connection)
    assert bm25.scores(lexicon, question).best(1)[0][0] == 4
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bm25, "_held_back", lambda *_: {})
        assert bm25.scores(lexicon, question).best(1)[0][0] != 4, "it is what the test is about"


def test_a_word_counts_as_usual_as_in_the_questions_language() -> None:
    connection = empty()
    for row in range(1, 5):
        put(connection, row, "nl", {row: ("", "De tuin heeft een sloot.")})
    for row in range(5, 40):
        put(connection, row, "en", {row: ("", "The garden has a pond." if row == 5 else "The garden has a hedge.")})
    put(connection, 40, "ja", {40: ("", "日本語の文章")})
    lexicon = postings.Tables(connection)
    factors = bm25._held_back(lexicon, ["tuin", "pond", "日本"], lexicon.languages())
    assert factors["tuin"] < 0.5
    assert factors["pond"] == 1.0
    assert "日本" not in factors
    assert bm25._held_back(lexicon, ["tuin", "pond"], ["en"]) == {"pond": 1.0}, "one language, no stop word"
    assert bm25._held_back(lexicon, ["in", "de", "tuin", "een"], lexicon.languages())["tuin"] < 0.5, "nl has most words"


def test_stop_words_are_those_that_texts_have() -> None:
    assert {"fur", "uber", "konnen"} <= bm25._usual("de"), "as `tokens` writes für, über, können"
    assert {"dia", "ultimo"}.isdisjoint(bm25._usual("es"))
    assert {"member", "room"}.isdisjoint(bm25._usual("en"))
    assert not bm25._usual("xx")


def test_a_collection_without_documents_finds_nothing() -> None:
    assert bm25.scores(postings.Tables(empty()), "Where is the garden?").best(3) == []


def test_a_part_of_a_score_is_the_whole_documents() -> None:
    connection = empty()
    documents = {1: {1: "zebra stripes a", 2: "zebra b b"}, 2: {3: "b a c"}, 3: {4: "a", 5: "c b zebra", 6: "zebra d"}}
    for number, chunks in documents.items():
        put(connection, number, "", {row: ("", text) for row, text in chunks.items()})
    put(connection, 4, "", {7: ("", "e"), 8: ("", "zebra c")})
    postings.remove(connection, 1)
    connection.execute("DELETE FROM chunks WHERE document = 1")
    del documents[1]
    documents[4] = {7: "e", 8: "zebra c"}
    question = ["zebra", "b", "a"]
    own = by_hand({row: text for chunks in documents.values() for row, text in chunks.items()}, question)
    whole = by_hand({number: " ".join(chunks.values()) for number, chunks in documents.items()}, question)
    scores = bm25.scores(postings.Tables(connection), " ".join(question))
    expected = {
        row: 0.6 * own[row] + 0.4 * whole[number] if own[row] else 0.0
        for number, chunks in documents.items()
        for row in chunks
    }
    assert expected[7] == 0.0
    assert scores.of(expected) == pytest.approx(expected)
    everyone = np.array(list(expected.values()))
    assert (scores.moments.mean, scores.moments.deviation) == pytest.approx((everyone.mean(), everyone.std()))


def test_a_sign_that_begins_several_pairs_of_a_chunk_is_one_word() -> None:
    connection = empty()
    for row, text in enumerate(["文章文学文化", "文字文明", "日本語"], start=1):
        put(connection, row, "zh", {row: ("", text)})
    found = bm25.scores(postings.Tables(connection), "文")
    assert found.rows.tolist() == [1, 2]
    assert found.values.min() > 0


def test_a_word_is_found_in_documents_of_every_language() -> None:
    connection = empty()
    put(connection, 1, "en", {1: ("", "Hotels in Zurich")})
    put(connection, 2, "de", {2: ("", "Die Hotels der Stadt")})
    put(connection, 3, "nl", {3: ("", "Een hotel")})
    assert rows_of(connection, "hotel") == {1, 2, 3}


@settings(max_examples=30, deadline=None)
@given(
    steps=st.lists(
        st.tuples(
            st.integers(1, 6),
            st.lists(st.text("ab cd", min_size=1, max_size=12), max_size=3),
            st.sampled_from(["en", ""]),
        ),
        max_size=12,
    )
)
def test_what_is_removed_leaves_nothing(steps: list[tuple[int, list[str], str]]) -> None:
    connection = empty()
    connection.execute("UPDATE lexical_totals SET chunks = 0")
    row, kept = postings.BLOCK - 5, dict[int, dict[int, str]]()
    for document, texts, language in steps:
        if document in kept:
            postings.remove(connection, document)
            connection.execute("DELETE FROM chunks WHERE document = ?", (document,))
            del kept[document]
        else:
            kept[document] = dict(enumerate(texts, start=row))
            put(connection, document, language, {number: ("", text) for number, text in kept[document].items()})
            row += len(texts)
    everything = {number: text for texts in kept.values() for number, text in texts.items()}
    assert postings.totals(connection) == (len(everything), sum(len(tokens(text)) for text in everything.values()))
    assert postings.Tables(connection).lengths().tolist() == [
        (min(texts), sum(len(tokens(text)) for text in texts.values())) for texts in kept.values() if texts
    ]
    having = Counter(word for text in everything.values() for word in set(tokens(text)))
    stored = {term.partition(":")[2] for (term,) in connection.execute("SELECT term FROM terms")}
    assert stored <= set(having)
    for word in having:
        assert rows_of(connection, word) == {number for number, text in everything.items() if word in tokens(text)}


def test_words_together_or_not(words: sqlite3.Connection) -> None:
    def rows_with(*asked: str, together: bool) -> list[int]:
        return bm25.containing(postings.Tables(words), list(asked), together)

    assert rows_with("quick", "bro", together=True) == [1]
    assert rows_with("dog", "fo", together=False) == [1, 6]
    assert rows_with("vergoed", together=True) == [7]
    assert rows_with("vergoedingen", together=True) == [7]
    assert rows_with("hippo", together=True) == []
    assert rows_with(together=False) == []
