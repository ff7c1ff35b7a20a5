"""How widely the index is searched: the least width that finds what a scan finds."""

from __future__ import annotations

import numpy as np
import pytest

from retriever.embedding.embedder import Vectors
from retriever.postgres import recall

VECTORS = np.random.default_rng(1).standard_normal((2000, 24)).astype(np.float32)
VECTORS /= np.linalg.norm(VECTORS, axis=1, keepdims=True)


def scan(query: Vectors) -> list[int]:
    return np.argsort(-(VECTORS @ query))[: recall.NEIGHBOURS].tolist()


def index_that_misses(shares: dict[int, float]) -> tuple[list[int], object]:
    """An index that finds the given share of the nearest at each width, and the widths that were tried."""
    tried: list[int] = []

    def index(width: int) -> recall.Nearest:
        tried.append(width)
        return lambda query: scan(query)[: round(shares[width] * recall.NEIGHBOURS)]

    return tried, index


@pytest.mark.parametrize(
    ("shares", "width", "found"),
    [
        ({200: 1.0}, 200, 1.0),
        ({200: 0.7, 400: 0.9, 700: 1.0}, 700, 1.0),
        ({200: 0.5, 400: 0.6, 700: 0.7, 1000: 0.8}, 1000, 0.8),
    ],
)
def test_the_least_width_that_finds_enough(shares: dict[int, float], width: int, found: float) -> None:
    tried, index = index_that_misses(shares)
    measured = recall.measure(VECTORS[: recall.QUERIES], 2000, scan, index)  # type: ignore[arg-type]
    assert measured == recall.Measured(width, found, 2000)
    assert tried == list(shares), "no wider search is tried than is needed"


def test_queries_lie_off_the_vectors_as_questions_do() -> None:
    asked: list[Vectors] = []

    def scanned(query: Vectors) -> list[int]:
        asked.append(query)
        return scan(query)

    recall.measure(VECTORS[: recall.QUERIES], 2000, scanned, lambda _: scan)
    cosines = [float(query @ own) for query, own in zip(asked, VECTORS, strict=False)]
    assert np.allclose([np.linalg.norm(query) for query in asked], 1.0, atol=1e-5)
    assert 0.2 < np.median(cosines) < 0.7


def test_what_was_measured_is_kept_in_a_comment_and_holds_until_the_collection_has_doubled() -> None:
    measured = recall.Measured(700, 0.991, 20_000)
    assert recall.Measured.of_comment(measured.comment) == measured
    assert measured.holds(39_999)
    assert not measured.holds(40_000)
    assert not recall.Measured.of_comment(None).holds(1), "an index of an earlier version is measured"
    for other in ("the index of the handbook", "[]", '{"owner": "me"}'):
        assert recall.Measured.of_comment(other) == recall.Measured(), "a comment of somebody else's"
