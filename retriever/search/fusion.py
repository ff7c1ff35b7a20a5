"""A question → the best chunks of one snapshot: dense, lexical, or both fused by reciprocal rank.

Equal scores are ordered by document id, then by position. Knows no files and no threads.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from typing import Any, get_args

from retriever.errors import InvalidQuery
from retriever.parsing.text import clean
from retriever.stores import records
from retriever.types import Passage, SearchMode

RRF_K = 60
"""Reciprocal rank fusion: a chunk scores 1 / (RRF_K + rank) in each list (Cormack et al. 2009)."""
DEPTH = 100
"""Chunks that each list contributes."""
CANDIDATES_WEIGHT = 0.05
"""Weight of the chunks that an earlier question retrieved; the question's own lists weigh 1. It lifts a chunk by a
place or two, and retrieves it if the question itself retrieves nothing."""
MAX_TOP_K = 100
MAX_QUESTION = 20_000
MAX_FILTERS = 16

Ranked = list[tuple[int, float]]
"""(chunk row, score), best first."""


def checked(question: str, top_k: int, mode: str, where: Mapping[str, Any] | None) -> str:
    """The cleaned question. Raises InvalidQuery with what is wrong and what is allowed."""
    text = clean(question).strip()
    if not text:
        raise InvalidQuery("the question is empty; write what you want to find")
    if len(text) > MAX_QUESTION:
        raise InvalidQuery(f"the question has {len(text):,} characters; at most {MAX_QUESTION:,} are allowed")
    if isinstance(top_k, bool) or not isinstance(top_k, int) or not 1 <= top_k <= MAX_TOP_K:
        raise InvalidQuery(f"top_k must be a whole number from 1 to {MAX_TOP_K}, got {top_k!r}")
    if mode not in get_args(SearchMode):
        raise InvalidQuery(f"mode must be one of {', '.join(get_args(SearchMode))}, got {mode!r}")
    if where is not None and (len(where) > MAX_FILTERS or any(not isinstance(key, str) for key in where)):
        raise InvalidQuery(f"filter must be an object with at most {MAX_FILTERS} metadata keys and their values")
    try:
        records.canonical(dict(where or {}))
    except (TypeError, ValueError) as error:
        raise InvalidQuery(f"the filter's values must be plain JSON: {error}") from None
    return text


def best(connection: sqlite3.Connection, lists: Sequence[tuple[float, Ranked]], top_k: int) -> Ranked:
    """The `top_k` best of one list by its own scores, or of several (weight, list) fused by reciprocal rank."""
    keys = records.order_keys(connection, {row for _, ranked in lists for row, _ in ranked})

    def ordered(ranked: Ranked) -> Ranked:
        present = [pair for pair in ranked if pair[0] in keys]
        return sorted(present, key=lambda pair: (-pair[1], keys[pair[0]]))

    if len(lists) == 1:
        return ordered(lists[0][1])[:top_k]
    fused: dict[int, float] = {}
    for weight, ranked in lists:
        for rank, (row, _) in enumerate(ordered(ranked), start=1):
            fused[row] = fused.get(row, 0.0) + weight / (RRF_K + rank)
    return ordered(list(fused.items()))[:top_k]


def passages(connection: sqlite3.Connection, ranked: Ranked) -> list[Passage]:
    """The ranked chunks as passages, in order; deleted rows are left out."""
    chunks = records.chunks_at(connection, [row for row, _ in ranked])
    return [_passage(chunks[row], score, rank) for rank, (row, score) in enumerate(ranked, start=1) if row in chunks]


def chunk_id(document_id: str, ordinal: int) -> str:
    """The public id of a chunk: its document's id, ':', its position among the document's chunks, from 0."""
    return f"{document_id}:{ordinal}"


def place(chunk: str) -> tuple[str, int]:
    """(document id, position) of a chunk by its public id; position -1 if the id is malformed."""
    document_id, _, ordinal = chunk.rpartition(":")
    return document_id, int(ordinal) if ordinal.isdecimal() and len(ordinal) < 10 else -1


def _passage(record: records.ChunkRecord, score: float, rank: int) -> Passage:
    chunk = record.chunk
    return Passage(
        document_id=record.document_id,
        chunk_id=chunk_id(record.document_id, chunk.ordinal),
        title=record.title or record.document_id,
        page=chunk.page,
        heading=" > ".join(chunk.heading) or None,
        text=chunk.text,
        source_start=chunk.start,
        source_end=chunk.end,
        score=score,
        rank=rank,
    )
