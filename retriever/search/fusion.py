"""The candidates of one or several collections → the best passages: lists fused by reciprocal rank. Pure.

Equal scores are ordered by document id, then by position, then by collection.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, get_args

from retriever.dates import iso_date
from retriever.errors import InvalidQuery
from retriever.parsing.text import clean
from retriever.search.standout import DEPTH as COMPARED
from retriever.search.standout import standout
from retriever.search.versions import Dated, newest_first
from retriever.stores.records import ChunkRecord, canonical
from retriever.types import Passage, SearchMode, SearchResult
from retriever.words import Words

RRF_K = 60
"""Reciprocal rank fusion: a chunk scores 1 / (RRF_K + rank) in each list (Cormack et al. 2009)."""
DEPTH = 100
"""Chunks that each list contributes."""
CANDIDATES_WEIGHT = 0.05
"""Weight of the chunks that an earlier question retrieved; the question's own lists weigh 1. It lifts a chunk by a
place or two, and retrieves it if the question itself retrieves nothing."""
NEAR = 2
"""Newer versions of a passage are looked for among so many times as many passages as are wanted."""
MAX_TOP_K = 100
MAX_QUESTION = 20_000
MAX_FILTERS = 16

Key = tuple[str, int, str]
"""Document id, position among the document's chunks, collection."""
Ranked = list[tuple[Key, float]]
"""(chunk, score), best first."""


@dataclass(frozen=True, slots=True)
class Candidates:
    """What the lists of one collection hold for a question: dense by cosine, lexical by BM25, earlier by their order.

    A list that the mode does not ask for is None.
    """

    dense: Ranked | None = None
    lexical: Ranked | None = None
    earlier: Ranked | None = None
    chunks: Mapping[Key, ChunkRecord] = field(default_factory=dict)


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
        canonical(dict(where or {}))
    except (TypeError, ValueError) as error:
        raise InvalidQuery(f"the filter's values must be plain JSON: {error}") from None
    return text


def fused(found: Sequence[Candidates], question: str, top_k: int, language: str) -> SearchResult:
    """The `top_k` best of all collections. A list of several collections is that of one with all their chunks.

    (Cosines of one embedder compare; BM25 weighs a word by how rare it is in its own collection, so a word that only
    one collection is about counts more in the others.)

    Args:
        question: with its words in `language` (ISO 639-1), to compare the candidates by.
    """
    chunks = {key: chunk for part in found for key, chunk in part.chunks.items()}
    dense = _merged([part.dense for part in found])
    lexical = _merged([part.lexical for part in found])
    earlier = _merged([part.earlier for part in found])
    lists = [(1.0, dense), (1.0, lexical), (CANDIDATES_WEIGHT, earlier)]
    ranked = _best([(weight, ranked) for weight, ranked in lists if ranked is not None])

    def dated(pair: tuple[Key, float]) -> Dated:
        record = chunks[pair[0]]
        return Dated(f"{pair[0][2]}/{pair[0][0]}", record.title, iso_date(record.date), record.chunk.text)

    best = newest_first(ranked[: NEAR * top_k], dated, question)[:top_k]
    scores = [score for _, score in ranked]
    passages = [passage(chunks[key], key, scores[n], n + 1) for n, (key, _) in enumerate(best)]
    if dense is None or lexical is None:
        return SearchResult(passages)
    compared = {key: chunks[key] for key, _ in [*dense[:COMPARED], *lexical[:COMPARED]]}
    texts = {key: "\n".join((one.title, *one.chunk.heading, one.chunk.text)) for key, one in compared.items()}
    margin = standout(question, texts, dense[:COMPARED], Words(language)) if len(texts) > 1 else None
    return SearchResult(passages, margin)


def _merged(lists: Sequence[Ranked | None]) -> Ranked | None:
    present = [ranked for ranked in lists if ranked is not None]
    return _ordered([pair for ranked in present for pair in ranked])[:DEPTH] if present else None


def _best(lists: Sequence[tuple[float, Ranked]]) -> Ranked:
    """One list by its own scores, or several (weight, list) fused by reciprocal rank."""
    if len(lists) == 1:
        return lists[0][1]
    scores: dict[Key, float] = {}
    for weight, ranked in lists:
        for rank, (key, _) in enumerate(ranked, start=1):
            scores[key] = scores.get(key, 0.0) + weight / (RRF_K + rank)
    return _ordered(list(scores.items()))


def _ordered(ranked: Ranked) -> Ranked:
    return sorted(ranked, key=lambda pair: (-pair[1], pair[0]))


def chunk_id(document_id: str, ordinal: int) -> str:
    """The public id of a chunk: its document's id, ':', its position among the document's chunks, from 0."""
    return f"{document_id}:{ordinal}"


def place(chunk: str) -> tuple[str, int]:
    """(document id, position) of a chunk by its public id; position -1 if the id is malformed."""
    document_id, _, ordinal = chunk.rpartition(":")
    return document_id, int(ordinal) if ordinal.isdecimal() and len(ordinal) < 10 else -1


def passage(record: ChunkRecord, key: Key, score: float, rank: int) -> Passage:
    """A stored chunk as a passage."""
    chunk = record.chunk
    return Passage(
        collection=key[2],
        document_id=record.document_id,
        chunk_id=chunk_id(record.document_id, chunk.ordinal),
        title=record.title or record.document_id,
        date=iso_date(record.date),
        page=chunk.page,
        heading=" > ".join(chunk.heading) or None,
        text=chunk.text,
        source_start=chunk.start,
        source_end=chunk.end,
        score=score,
        rank=rank,
    )
