"""`select`: the function that defines every token. Lossless means: accept a draft token iff `select` picks it.

Knows logits, sampling parameters, position and history; knows no tree, no drafter, no cache.

The processors run in this order: repetition, presence and frequency penalties, logit bias, grammar, temperature,
top-k, top-p, min-p. Tokens are ordered by (logit descending, token id ascending), so ties have one result. Sampling
takes the argmax of log-probabilities plus Gumbel noise keyed by (seed, choice, position). This is an exact draw from
the warped softmax (Gumbel-max), and repeating it gives the same token.
"""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray

from decoder.sampling import noise
from decoder.sampling.grammar import keep_allowed
from decoder.sampling.history import History
from decoder.sampling.params import SamplingParams

Floats = NDArray[np.float64]
_NUCLEUS_START = 1024
"""The number of best tokens that top-p sorts first."""


def select(logits: torch.Tensor, params: SamplingParams, position: int, history: History) -> int:
    """Choose the token at an absolute position.

    Args:
        logits: [V], any float dtype and device; the target's raw logits for this position.
        params: the answer's sampling parameters.
        position: absolute position of the token to choose: prompt length + index in the answer.
        history: tokens before this position.

    Returns:
        the token id.
    """
    if params.plain_greedy:
        return int(logits.argmax())  # torch returns the first of equal maxima
    tokens, scores = perturbed_scores(logits, params, position, history)
    return int(tokens[np.argmax(scores)])


def perturbed_scores(
    logits: torch.Tensor, params: SamplingParams, position: int, history: History
) -> tuple[NDArray[np.int64], Floats]:
    """The scores whose argmax `select` takes, with noise if the answer is sampled. Arguments as `select`.

    Returns:
        (tokens int64 [n] ascending, scores float64 [n]): the tokens that may be chosen, and their scores.
    """
    raw = logits.to("cpu", torch.float64).numpy()
    scores = penalised(raw, params, history)
    if history.grammar is not None and history.complete_after is None:
        scores = keep_allowed(scores, raw, history.grammar)
    if params.temperature == 0.0:
        return np.arange(len(scores)), scores
    tokens, log_weights = warp(scores, params)
    uniforms = noise.uniform(params.seed, params.choice, position, len(scores))[tokens]
    return tokens, log_weights + noise.gumbel(uniforms)


def penalised(logits: Floats, params: SamplingParams, history: History) -> Floats:
    """Raw logits with penalties and bias applied: float64 [V] -> float64 [V], a new array."""
    scores = logits.copy()
    if params.repetition_penalty != 1.0:
        seen = np.fromiter((t for t in history.seen if t < len(scores)), np.int64)
        values = scores[seen]
        with np.errstate(over="ignore"):
            scores[seen] = np.where(values > 0, values / params.repetition_penalty, values * params.repetition_penalty)
    if params.presence_penalty or params.frequency_penalty:
        tokens = np.fromiter(history.counts.keys(), np.int64, len(history.counts))
        counts = np.fromiter(history.counts.values(), np.float64, len(history.counts))
        scores[tokens] -= params.presence_penalty + params.frequency_penalty * counts
    for token, bias in params.logit_bias.items():
        scores[token] += bias
    return scores


def warp(scores: Floats, params: SamplingParams) -> tuple[NDArray[np.int64], Floats]:
    """Apply temperature, top-k, top-p and min-p.

    Args:
        scores: float64 [V], processed logits.

    Returns:
        (tokens int64 [n] ascending, log-weights float64 [n]): the remaining tokens, and their log-probabilities up to
        a common constant.
    """
    best = scores.max()
    # Logits divided by a temperature near zero would overflow; differences to the best logit stay finite or -inf.
    # The best logit itself may be infinite, after a tiny repetition penalty.
    with np.errstate(over="ignore", invalid="ignore"):
        log_weights = np.where(scores == best, 0.0, (scores - best) / params.temperature)
    tokens = np.flatnonzero(log_weights > -np.inf)
    log_weights = log_weights[tokens]
    if 0 < params.top_k < len(tokens):
        keep = _best(log_weights, params.top_k)
        tokens, log_weights = tokens[keep], log_weights[keep]
    if params.top_p < 1.0:
        keep = _nucleus(log_weights, params.top_p)
        tokens, log_weights = tokens[keep], log_weights[keep]
    if params.min_p > 0.0:
        keep = np.flatnonzero(log_weights >= np.log(params.min_p))
        tokens, log_weights = tokens[keep], log_weights[keep]
    return tokens, log_weights


def _nucleus(log_weights: Floats, top_p: float) -> NDArray[np.int64]:
    """Indices, ascending, of the smallest set of best values, ordered as in `_best`, with `top_p` of the total weight.

    Sorting a whole vocabulary takes longer than the rest of `select`, so a few of the best values are sorted first.
    """
    weights = np.exp(log_weights)
    enough = top_p * weights.sum()
    size = _NUCLEUS_START
    while True:
        candidates = _best(log_weights, size) if size < len(log_weights) else np.arange(len(log_weights))
        order = candidates[np.argsort(-log_weights[candidates], kind="stable")]
        # The weight of strictly better tokens decides, so the token that crosses top_p stays.
        before = np.cumsum(weights[order]) - weights[order]
        count = max(1, int(np.count_nonzero(before < enough)))
        if count < len(order) or len(order) == len(log_weights):
            return np.sort(order[:count])
        size *= 8


def _best(values: Floats, k: int) -> NDArray[np.int64]:
    """Indices, ascending, of the k best values ordered by (value descending, index ascending)."""
    threshold = np.partition(values, len(values) - k)[len(values) - k]
    above = np.flatnonzero(values > threshold)
    equal = np.flatnonzero(values == threshold)[: k - len(above)]
    return np.sort(np.concatenate([above, equal]))
