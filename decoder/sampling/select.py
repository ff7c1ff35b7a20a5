"""`select`: the function that defines every token. Lossless means: accept a draft token iff `select` picks it.

Knows logits, sampling parameters, position and history; knows no tree, no drafter, no cache.

The processors run in this order: repetition, presence and frequency penalties, logit bias, grammar, temperature,
top-k, top-p, min-p. Tokens are ordered by (logit descending, token id ascending), so ties have one result. Sampling
takes the argmax of log-probabilities plus Gumbel noise keyed by (seed, choice, position). This is an exact draw from
the warped softmax (Gumbel-max), and repeating it gives the same token.

`oracle` reads these rules in float64, over the whole vocabulary. `select` applies the oracle's arithmetic to the few
tokens that can win (`contenders.py`), so its choice is the oracle's.
"""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray

from decoder.sampling import contenders, noise
from decoder.sampling.best_tokens import BestTokens
from decoder.sampling.grammar import keep_allowed
from decoder.sampling.greedy import greedy
from decoder.sampling.history import History
from decoder.sampling.params import SamplingParams
from decoder.sampling.processors import Floats, best_indices, nucleus, penalise, tempered


def select(
    logits: torch.Tensor, params: SamplingParams, position: int, history: History, best: BestTokens | None = None
) -> int:
    """Choose the token at an absolute position.

    Args:
        logits: [V], any float dtype and device; the target's raw logits for this position.
        params: the answer's sampling parameters.
        position: absolute position of the token to choose: prompt length + index in the answer.
        history: tokens before this position.
        best: the row's best tokens, if they are known already.

    Returns:
        the token id.
    """
    if params.plain_greedy:
        return int(greedy(logits[None])[0])
    token = contenders.choice(logits, params, position, history, best)
    return oracle(logits, params, position, history) if token is None else token


def oracle(logits: torch.Tensor, params: SamplingParams, position: int, history: History) -> int:
    """What `select` has to equal: the choice by float64 scores of the whole vocabulary. Arguments as `select`."""
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
    scores = penalise(raw.copy(), np.arange(len(raw)), len(raw), params, history)
    if history.grammar is not None and history.complete_after is None:
        scores = keep_allowed(scores, raw, history.grammar)
    if params.temperature == 0.0:
        return np.arange(len(scores)), scores
    tokens, log_weights = warp(scores, params)
    uniforms = noise.uniform(params.seed, params.choice, position, len(scores))[tokens]
    return tokens, log_weights + noise.gumbel(uniforms)


def warp(scores: Floats, params: SamplingParams) -> tuple[NDArray[np.int64], Floats]:
    """Apply temperature, top-k, top-p and min-p.

    Args:
        scores: float64 [V], processed logits.

    Returns:
        (tokens int64 [n] ascending, log-weights float64 [n]): the remaining tokens, and their log-probabilities up to
        a common constant.
    """
    log_weights = tempered(scores, scores.max(), params.temperature)
    tokens = np.flatnonzero(log_weights > -np.inf)
    log_weights = log_weights[tokens]
    if 0 < params.top_k < len(tokens):
        keep = best_indices(log_weights, params.top_k)
        tokens, log_weights = tokens[keep], log_weights[keep]
    if params.top_p < 1.0:
        keep = nucleus(log_weights, params.top_p)
        tokens, log_weights = tokens[keep], log_weights[keep]
    if params.min_p > 0.0:
        keep = np.flatnonzero(log_weights >= np.log(params.min_p))
        tokens, log_weights = tokens[keep], log_weights[keep]
    return tokens, log_weights
