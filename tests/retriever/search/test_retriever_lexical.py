"""Questions can never be read as FTS5's query language."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from retriever import lexical


@pytest.fixture(scope="module")
def words() -> Iterator[sqlite3.Connection]:
    connection = sqlite3.connect(":memory:")
    connection.execute(lexical.SCHEMA)
    lexical.add(
        connection,
        [
            (1, "Zoo", "The quick brown fox AND the lazy dog"),
            (2, "Café", "naïve résumé, über alles"),
            (3, "", "日本語の文章を検索する"),
            (4, "", "ภาษาไทยไม่มีช่องว่าง"),
            (5, "", "हिन्दी में खोज"),
            (6, "", "fox fox fox near a NEAR(dog) column: text"),
        ],
    )
    yield connection
    connection.close()


def rows(connection: sqlite3.Connection, question: str) -> list[int]:
    return [row for row, _ in lexical.search(connection, question, 10)]


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
    assert set(rows(words, question)) <= set(range(1, 7))


def test_long_questions_are_bounded() -> None:
    expression = lexical.match_expression(" ".join(f"w{number}" for number in range(10_000)))
    assert expression is not None
    assert expression.count(" OR ") == lexical.MAX_WORDS - 1
    assert expression.startswith('"w0" OR "w1"')


def test_questions_without_words_find_nothing() -> None:
    assert lexical.match_expression("?! … –") is None
