"""Processors: penalties and the sets of top-k and top-p, over numbers in float64.

Knows scores, parameters and history; knows no noise and no tensors. `select.py` applies them to a whole vocabulary,
`contenders.py` to the few tokens that can win; both by the same operations on each number.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

import numpy as np
from numpy.typing import NDArray

from decoder.sampling.history import History
from decoder.sampling.params import SamplingParams

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
_NUCLEUS_START = 1024
"""The number of best tokens that top-p sorts first."""


def penalise(scores: Floats, tokens: Ints, vocab: int, params: SamplingParams, history: History) -> Floats:
    """Apply penalties and bias to scores, in place, and return them.

    Args:
        scores: float64 [n], raw logits.
        tokens: int64 [n], ascending: whose they are.
        vocab: size of the vocabulary.
    """
    if params.repetition_penalty != 1.0:
        seen = np.flatnonzero(history.seen(vocab)[tokens])
        values = scores[seen]
        with np.errstate(over="ignore"):
            scores[seen] = np.where(values > 0, values / params.repetition_penalty, values * params.repetition_penalty)
    if params.presence_penalty or params.frequency_penalty:
        places, counts = _places(history.counts, tokens)
        scores[places] -= params.presence_penalty + params.frequency_penalty * counts
    if params.logit_bias:
        places, amounts = _places(params.logit_bias, tokens)
        scores[places] += amounts
    return scores


def penalised_tokens(vocab: int, params: SamplingParams, history: History) -> Ints:
    """The tokens whose scores `penalise` may change: int64 [n], ascending."""
    return _tokens(
        vocab,
        history,
        params.repetition_penalty != 1.0,
        params.presence_penalty != 0.0 or params.frequency_penalty != 0.0,
        params.logit_bias,
    )


def raised_tokens(vocab: int, params: SamplingParams, history: History) -> Ints:
    """The tokens whose scores `penalise` may raise: int64 [n], ascending. It raises no other token's."""
    return _tokens(
        vocab,
        history,
        params.repetition_penalty < 1.0,
        params.presence_penalty < 0.0 or params.frequency_penalty < 0.0,
        [token for token, amount in params.logit_bias.items() if amount > 0.0],
    )


def _tokens(vocab: int, history: History, seen: bool, counted: bool, biased: Collection[int]) -> Ints:
    parts = []
    if seen:
        parts.append(np.flatnonzero(history.seen(vocab)))
    if counted:
        parts.append(np.fromiter(history.counts, np.int64))
    if biased:
        parts.append(np.fromiter(biased, np.int64))
    tokens = np.unique(np.concatenate(parts)) if parts else np.empty(0, np.int64)
    return tokens[tokens < vocab]


def missing(tokens: Ints, among: Ints) -> NDArray[np.bool_]:
    """Which tokens are not among others, which are ascending: bool [n]."""
    absent: NDArray[np.bool_] = np.append(among, -1)[np.searchsorted(among, tokens)] != tokens
    return absent


def _places(amounts: Mapping[int, float], tokens: Ints) -> tuple[Ints, Floats]:
    """Where `tokens` have the keys of `amounts`, and the amounts there."""
    keys = np.fromiter(amounts.keys(), np.int64, len(amounts))
    found = ~missing(keys, tokens)
    return np.searchsorted(tokens, keys[found]), np.fromiter(amounts.values(), np.float64, len(amounts))[found]


def tempered(scores: Floats, best: float, temperature: float) -> Floats:
    """Log-probabilities of scores up to a common constant: 0 for the best score. float64 [n] -> float64 [n].

    Logits divided by a temperature near zero would overflow; differences to the best one stay finite or -inf.
    The best one itself may be infinite, after a tiny repetition penalty.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        return np.where(scores == best, 0.0, (scores - best) / temperature)


def nucleus(log_weights: Floats, top_p: float) -> Ints:
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


def best_indices(values: Floats, k: int) -> Ints:
    """Indices, ascending, of the k best values ordered by (value descending, index ascending)."""
    threshold = np.partition(values, len(values) - k)[len(values) - k]
    above = np.flatnonzero(values > threshold)
    equal = np.flatnonzero(values == threshold)[: k - len(above)]
    return np.sort(np.concatenate([above, equal]))
