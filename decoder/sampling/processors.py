"""Processors: penalties and the sets of top-k and top-p, over numbers in float64.

Knows scores, parameters and history; knows no noise and no tensors. `select.py` applies them to a whole vocabulary,
`contenders.py` to the few tokens that can win; both by the same operations on each number.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from decoder.sampling.history import History
from decoder.sampling.params import SamplingParams

Floats = NDArray[np.float64]
Places = Callable[[NDArray[np.int64]], NDArray[np.int64]]
_NUCLEUS_START = 1024
"""The number of best tokens that top-p sorts first."""


def penalise(scores: Floats, params: SamplingParams, history: History, vocab: int, places: Places) -> Floats:
    """Apply penalties and bias to scores, in place, and return them.

    Args:
        scores: float64 [n], raw logits, of at least the `penalised_tokens`.
        vocab: size of the vocabulary.
        places: token ids -> their places in `scores`.
    """
    if params.repetition_penalty != 1.0:
        seen = places(_seen(vocab, history))
        values = scores[seen]
        with np.errstate(over="ignore"):
            scores[seen] = np.where(values > 0, values / params.repetition_penalty, values * params.repetition_penalty)
    if params.presence_penalty or params.frequency_penalty:
        tokens = places(np.fromiter(history.counts.keys(), np.int64, len(history.counts)))
        counts = np.fromiter(history.counts.values(), np.float64, len(history.counts))
        scores[tokens] -= params.presence_penalty + params.frequency_penalty * counts
    if params.logit_bias:
        biased = places(np.fromiter(params.logit_bias.keys(), np.int64, len(params.logit_bias)))
        scores[biased] += np.fromiter(params.logit_bias.values(), np.float64, len(params.logit_bias))
    return scores


def penalised_tokens(vocab: int, params: SamplingParams, history: History) -> NDArray[np.int64]:
    """The tokens whose scores `penalise` may change: int64 [n], ascending."""
    parts = []
    if params.repetition_penalty != 1.0:
        parts.append(_seen(vocab, history))
    if params.presence_penalty or params.frequency_penalty:
        parts.append(np.fromiter(history.counts.keys(), np.int64, len(history.counts)))
    if params.logit_bias:
        parts.append(np.fromiter(params.logit_bias.keys(), np.int64, len(params.logit_bias)))
    return np.unique(np.concatenate(parts)) if parts else np.empty(0, np.int64)


def _seen(vocab: int, history: History) -> NDArray[np.int64]:
    return np.fromiter((t for t in history.seen if t < vocab), np.int64)


def nucleus(log_weights: Floats, top_p: float) -> NDArray[np.int64]:
    """Indices, ascending, of the smallest set of best values with `top_p` of the total weight.

    Values are ordered as in `best_indices`. Sorting a whole vocabulary takes longer than the rest of `select`, so a few
    of the best values are sorted first.
    """
    weights = np.exp(log_weights)
    enough = top_p * weights.sum()
    size = _NUCLEUS_START
    while True:
        candidates = best_indices(log_weights, size) if size < len(log_weights) else np.arange(len(log_weights))
        order = candidates[np.argsort(-log_weights[candidates], kind="stable")]
        # The weight of strictly better tokens decides, so the token that crosses top_p stays.
        before = np.cumsum(weights[order]) - weights[order]
        count = max(1, int(np.count_nonzero(before < enough)))
        if count < len(order) or len(order) == len(log_weights):
            return np.sort(order[:count])
        size *= 8


def best_indices(values: Floats, k: int) -> NDArray[np.int64]:
    """Indices, ascending, of the k best values ordered by (value descending, index ascending)."""
    threshold = np.partition(values, len(values) - k)[len(values) - k]
    above = np.flatnonzero(values > threshold)
    equal = np.flatnonzero(values == threshold)[: k - len(above)]
    return np.sort(np.concatenate([above, equal]))
