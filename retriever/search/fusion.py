"""The candidates of one or several collections → the best passages, fused by how far their scores stand out. Pure.

A score counts by its distance from the mean of all chunks' scores for this question, in standard deviations: a part
that finds one chunk far above all others decides, and one that finds all alike says little. Cosines also count by the
share of the question that the embedder knows. Nothing depends on a language's name or on a number fitted to a
collection.

Equal scores are ordered by document id, then by position, then by collection. A reranker may reorder the best of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, get_args

from retriever.chunking.chunker import embedding_text
from retriever.dates import iso_date
from retriever.errors import InvalidQuery
from retriever.moments import Moments
from retriever.parsing.text import clean
from retriever.search.reranking import Reranking
from retriever.search.standout import DEPTH as COMPARED
from retriever.search.standout import standout
from retriever.search.versions import Dated, newest_first
from retriever.stores import filters
from retriever.stores.records import ChunkRecord
from retriever.types import Passage, SearchMode, SearchResult
from retriever.words import Words

DEPTH = 100
"""Chunks that each part contributes."""
EARLIER_BONUS = 0.3
"""Standard deviations that the best of the chunks counts more that an earlier question retrieved, and the others
nearly as much. It lifts a chunk by a place or two, and retrieves it if the question itself retrieves nothing."""
EARLIER_STEP = 60
"""Places after which the bonus is half as large."""
NEAR = 2
"""Newer versions of a passage are looked for among so many times as many passages as are wanted."""
MAX_TOP_K = 100
MAX_QUESTION = 20_000

Key = tuple[str, int, str]
"""Document id, position among the document's chunks, collection."""
Ranked = list[tuple[Key, float]]
"""(chunk, score), best first."""


@dataclass(frozen=True, slots=True)
class Part:
    """What one kind of search gives: dense by cosine, lexical by BM25.

    Attributes:
        ranked: its best chunks.
        scores: those of the candidates of every part.
        moments: of the scores of all chunks of the collection.
    """

    ranked: Ranked
    scores: Mapping[Key, float]
    moments: Moments


@dataclass(frozen=True, slots=True)
class Candidates:
    """What one collection has for a question. A part that the mode does not ask for is None.

    Attributes:
        earlier: chunks that an earlier question retrieved, best first.
        known: share of the question that the embedder knows.
    """

    dense: Part | None = None
    lexical: Part | None = None
    earlier: Sequence[Key] = ()
    chunks: Mapping[Key, ChunkRecord] = field(default_factory=dict)
    known: float = 1.0


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
    if where is not None:
        filters.checked(where)
    return text


def fused(
    found: Sequence[Candidates], question: str, top_k: int, language: str, reranking: Reranking | None = None
) -> SearchResult:
    """The `top_k` best of all collections. A list of several collections is that of one with all their chunks.

    (Cosines of one embedder compare; BM25 weighs a word by how rare it is in its own collection, so a word that only
    one collection is about counts more in the others.)

    Args:
        question: with its words in `language` (ISO 639-1), to compare the candidates by.
        reranking: reorders the best candidates; what it does not score keeps its order behind them.

    Raises RerankerUnavailable.
    """
    chunks = {key: chunk for part in found for key, chunk in part.chunks.items()}
    dense = _merged([part.dense for part in found])
    lexical = _merged([part.lexical for part in found])
    bonus = {
        key: EARLIER_BONUS * EARLIER_STEP / (EARLIER_STEP + place)
        for part in found
        for place, key in enumerate(part.earlier)
    }
    ranked = _best(dense, lexical, bonus, min((part.known for part in found), default=1.0))

    reread: dict[Key, float] = {}
    if reranking is not None:
        near_best = [key for key, _ in ranked[: reranking.candidates]]
        texts = [embedding_text(chunks[key].title, chunks[key].chunk) for key in near_best]
        reread = dict(zip(near_best, reranking.scores(question, texts), strict=False))  # fewer, if time is up
        ranked = [*sorted(ranked[: len(reread)], key=lambda pair: -reread[pair[0]]), *ranked[len(reread) :]]

    def dated(pair: tuple[Key, float]) -> Dated:
        record = chunks[pair[0]]
        return Dated(f"{pair[0][2]}/{pair[0][0]}", record.title, iso_date(record.date), record.chunk.text)

    best = newest_first(ranked[: NEAR * top_k], dated, question)[:top_k]
    passages = [  # scores go by the place: a newer version takes the place of an older one
        passage(chunks[key], key, score, n, reread.get(placed))
        for n, ((key, _), (placed, score)) in enumerate(zip(best, ranked, strict=False), start=1)
    ]
    if dense is None or lexical is None:
        return SearchResult(passages)
    near = dense.ranked[:COMPARED]
    compared = {key: chunks[key] for key, _ in [*near, *lexical.ranked[:COMPARED]]}
    shown = {key: "\n".join((one.title, *one.chunk.heading, one.chunk.text)) for key, one in compared.items()}
    margin = standout(question, shown, near, Words(language)) if len(shown) > 1 else None
    return SearchResult(passages, margin)


def _merged(parts: Sequence[Part | None]) -> Part | None:
    present = [part for part in parts if part is not None]
    if not present:
        return None
    ranked = _ordered([pair for part in present for pair in part.ranked])[:DEPTH]
    scores = {key: score for part in present for key, score in part.scores.items()}
    return Part(ranked, scores, sum((part.moments for part in present), Moments()))


def _best(dense: Part | None, lexical: Part | None, bonus: Mapping[Key, float], known: float) -> Ranked:
    """The candidates by their score: of one part its own, of two how far they stand out in both together."""
    keys = {key for part in (dense, lexical) if part is not None for key, _ in part.ranked} | set(bonus)
    if dense is not None and lexical is not None:
        near, words = dense.moments.standings(dense.scores, keys), lexical.moments.standings(lexical.scores, keys)
        return _ordered([(key, known * near[key] + words[key] + bonus.get(key, 0.0)) for key in keys])
    part = dense or lexical
    assert part is not None, "a search has at least one part"
    unit = part.moments.deviation or 1.0
    return _ordered([(key, part.scores[key] + unit * bonus.get(key, 0.0)) for key in keys])


def _ordered(ranked: Ranked) -> Ranked:
    return sorted(ranked, key=lambda pair: (-pair[1], pair[0]))


def chunk_id(document_id: str, ordinal: int) -> str:
    """The public id of a chunk: its document's id, ':', its position among the document's chunks, from 0."""
    return f"{document_id}:{ordinal}"


def place(chunk: str) -> tuple[str, int]:
    """(document id, position) of a chunk by its public id; position -1 if the id is malformed."""
    document_id, _, ordinal = chunk.rpartition(":")
    return document_id, int(ordinal) if ordinal.isdecimal() and len(ordinal) < 10 else -1


def passage(record: ChunkRecord, key: Key, score: float, rank: int, rerank_score: float | None = None) -> Passage:
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
        rerank_score=rerank_score,
    )
