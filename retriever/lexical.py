"""BM25 over chunks: SQLite's FTS5 over the words that `analyze` gives.

Knows FTS5's query language, and quotes questions so that they contain none of it. Scripts without spaces (Chinese,
Japanese, Thai, …) are indexed as overlapping pairs of characters; FTS5's own tokenizer would not split them.
"""

from __future__ import annotations

import re
import sqlite3
import unicodedata
from collections.abc import Sequence

MAX_WORDS = 64
"""The search uses this many different words of a question, the first ones."""

# Marks (M*) are part of words: without them the vowel signs of Thai, Hindi, … would cut every word
_TOKENIZER = "unicode61 remove_diacritics 2 categories 'L* N* M* Co'"
SCHEMA = f'CREATE VIRTUAL TABLE lexical USING fts5(heading, text, tokenize = "{_TOKENIZER}")'

_UNSPACED = (
    "\u0e00-\u0eff"  # Thai, Lao
    "\u1000-\u109f\u1780-\u17ff"  # Myanmar, Khmer
    "\u3040-\u30ff\u31f0-\u31ff"  # kana
    "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"  # Han
    "\U00020000-\U0003ffff"
)
_UNSPACED_RUN = re.compile(f"[{_UNSPACED}]+")


def analyze(text: str) -> str:
    """`text` as it is indexed: runs of an unspaced script become overlapping pairs, separated by spaces."""
    return _UNSPACED_RUN.sub(lambda run: " " + " ".join(_pairs(run[0])) + " ", text)


def match_expression(question: str) -> str | None:
    """An FTS5 expression that matches chunks with any word of `question`; None if it has no words."""
    spaced = "".join(char if _in_word(char) else " " for char in analyze(question[:20000]))
    words = {word.lower(): word for word in reversed(spaced.split())}
    terms = [_term(word) for word in list(reversed(words.values()))[:MAX_WORDS]]
    return " OR ".join(terms) if terms else None


def mention_expression(words: str, *, together: bool) -> str | None:
    """An FTS5 expression that matches chunks with all of `words`, or with the words together in their order.

    Each word, or with `together` the last one, may go on. None if there are no words.
    """
    spaced = "".join(char if _in_word(char) else " " for char in analyze(words[:20000])).split()[:MAX_WORDS]
    if not spaced:
        return None
    return f'"{" ".join(spaced)}" *' if together else " AND ".join(f'"{word}" *' for word in spaced)


def add(connection: sqlite3.Connection, rows: Sequence[tuple[int, str, str]]) -> None:
    """Index chunks given as (row, headings, text)."""
    connection.executemany(
        "INSERT INTO lexical(rowid, heading, text) VALUES (?, ?, ?)",
        [(row, analyze(heading), analyze(text)) for row, heading, text in rows],
    )


def remove(connection: sqlite3.Connection, document_row: int) -> None:
    """Drop a document's chunks from the index; call before its chunks are deleted."""
    connection.execute(
        "DELETE FROM lexical WHERE rowid IN (SELECT row FROM chunks WHERE document = ?)", (document_row,)
    )


def search(
    connection: sqlite3.Connection, question: str, depth: int, allowed: str = "", parameters: Sequence[object] = ()
) -> list[tuple[int, float]]:
    """The `depth` best chunks as (row, score), best first, ties by row; score above 0, higher is better.

    `allowed`: an SQL subquery of chunk rows to choose from, with its `parameters`.
    """
    expression = match_expression(question)
    if expression is None:
        return []
    restricted = f"AND rowid IN ({allowed})" if allowed else ""
    rows = connection.execute(
        f"SELECT rowid, -bm25(lexical, 2.0, 1.0) AS score FROM lexical WHERE lexical MATCH ? {restricted} "
        "ORDER BY score DESC, rowid LIMIT ?",
        (expression, *parameters, depth),
    )
    return [(int(row), float(score)) for row, score in rows]


def _pairs(run: str) -> list[str]:
    return [run[index : index + 2] for index in range(len(run) - 1)] or [run]


def _in_word(char: str) -> bool:
    category = unicodedata.category(char)
    return category[0] in "LNM" or category == "Co"


def _term(word: str) -> str:
    """`word` quoted; a lone character of an unspaced script matches the pairs that begin with it."""
    lone = len(word) == 1 and _UNSPACED_RUN.match(word)
    return f'"{word}" *' if lone else f'"{word}"'
