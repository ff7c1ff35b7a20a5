"""Ranked documents against judgements: nDCG, recall, reciprocal rank; means with intervals. Pure functions."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

MEASURES = ("ndcg@10", "recall@5", "recall@10", "recall@100", "mrr")
RESAMPLES = 2000


def measured(ranked: Sequence[str], relevant: Mapping[str, float]) -> dict[str, float]:
    """`MEASURES` of one query. `ranked`: documents, best first, each once."""
    return {
        "ndcg@10": ndcg(ranked, relevant, 10),
        **{f"recall@{depth}": recall(ranked, relevant, depth) for depth in (5, 10, 100)},
        "mrr": next((1 / place for place, one in enumerate(ranked, start=1) if one in relevant), 0.0),
    }


def ndcg(ranked: Sequence[str], relevant: Mapping[str, float], depth: int) -> float:
    """Normalised discounted cumulative gain, with linear gains as in trec_eval."""
    gained = sum(relevant.get(one, 0.0) / math.log2(place + 2) for place, one in enumerate(ranked[:depth]))
    ideal = sorted(relevant.values(), reverse=True)[:depth]
    return gained / sum(gain / math.log2(place + 2) for place, gain in enumerate(ideal))


def recall(ranked: Sequence[str], relevant: Mapping[str, float], depth: int) -> float:
    """The share of the relevant documents among the first `depth`."""
    return len(set(ranked[:depth]) & relevant.keys()) / len(relevant)


def interval(values: Sequence[float], seed: int = 0) -> tuple[float, float, float]:
    """(mean, low, high) of values, or of paired differences; the 95 % bootstrap interval."""
    array = np.asarray(values, dtype=np.float64)
    random = np.random.default_rng(seed)
    means = [array[random.integers(0, len(array), len(array))].mean() for _ in range(RESAMPLES)]
    low, high = np.quantile(means, [0.025, 0.975])
    return float(array.mean()), float(low), float(high)
