"""Contenders: the few tokens that can be the choice, found in float32. `select` then decides among them in float64.

The float64 reading of the rules (`select.perturbed_scores`) is the oracle. A whole vocabulary in float64 takes
milliseconds, so this file reads it in float32, keeps every token that the oracle could choose if each float32 number
were off by its rounding bound, and computes those tokens' scores by the oracle's own operations. So the choice equals
the oracle's by construction. Where a bound does not hold or does not decide, there are no contenders, and the oracle
reads the whole vocabulary: scores that are not finite, an extreme temperature, a grammar, a tie at top-p's border. It
also reads greedy answers with penalties, which it does as fast.

The bounds. Every score s is known as f with |f - s| <= 2^-23 |f|, and 0 < w = exp((s - best) / temperature) as a
float32 number off by at most the share `_error`, or 1e-37. Gumbel noise is -log(-log(u)), so a token leads the score S
only if -log(u) <= w exp(-S); and -log(u) >= 1 - u. The right side needs no logarithm of any token's noise.

Knows logits, parameters and noise; knows no tree and no model.
"""

from __future__ import annotations

import math

import numpy as np
import torch
from numpy.typing import NDArray

from decoder.sampling import noise
from decoder.sampling.history import History
from decoder.sampling.params import SamplingParams
from decoder.sampling.processors import Floats, best_indices, nucleus, penalise, penalised_tokens

Floats32 = NDArray[np.float32]
Ints = NDArray[np.int64]

_ROUNDING = 2.0**-22
"""Bound of |f - s| / |f| with room to spare: float32 rounds to 2^-24."""
_LEAST_WEIGHT = 1e-37
"""Weights below it may be anything from 0 to it in float32."""
_WIDEST_ERROR = 2.0**-10
"""Most error of a log-weight that is taken; it grows as the temperature falls."""
_BLOCK = 64
"""Tokens of a block, which lie far apart. The k-th best of the blocks' maxima is no better than the k-th best token."""
_NUCLEUS_STARTS = (64, 512)
"""Sizes of the sets of best tokens in which a nucleus is looked for."""


class Row:
    """One row of logits, penalised, in float32, and any token's score in float64.

    Args:
        logits: [V], any float dtype and device.
        params, history: as for `select`.
    """

    def __init__(self, logits: torch.Tensor, params: SamplingParams, history: History) -> None:
        self._logits = logits
        self._changed = penalised_tokens(len(logits), params, history)
        self.rough: Floats32 = logits.to("cpu", torch.float32).numpy()
        if len(self._changed):
            raw = self._raw(self._changed)
            changed = self._changed
            self._values = penalise(raw, params, history, len(logits), lambda tokens: np.searchsorted(changed, tokens))
            if logits.device.type == "cpu" and logits.dtype == torch.float32:
                self.rough = self.rough.copy()
            with np.errstate(over="ignore"):
                self.rough[self._changed] = self._values
        self.rough_best = float(self.rough.max())
        """Not finite if a score is not a number, or too large."""

    def scores(self, tokens: Ints) -> Floats:
        """The penalised logits of ascending tokens: float64 [n], as `select.penalised` has them."""
        scores = self._raw(tokens)
        if len(self._changed):
            at = np.minimum(np.searchsorted(self._changed, tokens), len(self._changed) - 1)
            changed = self._changed[at] == tokens
            scores[changed] = self._values[at[changed]]
        return scores

    def at_least(self, bound: float) -> Ints:
        """The tokens whose score may be `bound` or more, ascending."""
        slack = 2 * _ROUNDING * max(abs(bound), abs(self.rough_best)) + 1e-30
        return np.flatnonzero(self.rough >= np.float32(bound - slack))

    def best(self, count: int) -> Ints | None:
        """Tokens, ascending, among which are the `count` best; None if that would be a large part of all."""
        blocks = len(self.rough) // _BLOCK
        if blocks <= count:
            return None
        maxima = self.rough[: blocks * _BLOCK].reshape(_BLOCK, blocks).max(0)
        bound = float(np.partition(maxima, blocks - count)[blocks - count])
        return self.at_least(bound) if math.isfinite(bound) else None

    def _raw(self, tokens: Ints) -> Floats:
        raw: Floats = self._logits[torch.from_numpy(tokens).to(self._logits.device)].to("cpu", torch.float64).numpy()
        return raw


def choice(logits: torch.Tensor, params: SamplingParams, position: int, history: History) -> int | None:
    """The token that the oracle chooses; None if the float32 reading cannot tell. Arguments as `select.select`."""
    if params.temperature == 0.0 or (history.grammar is not None and history.complete_after is None):
        return None
    row = Row(logits, params, history)
    if not math.isfinite(row.rough_best):
        return None
    best = float(row.scores(row.at_least(row.rough_best)).max())
    if _ROUNDING * abs(best) > _WIDEST_ERROR * params.temperature or not 1e-30 < params.temperature < 1e30:
        return None
    if not params.top_k and params.top_p == 1.0 and not params.min_p:
        return _drawn_from_all(row, best, params, position)
    kept = _kept(row, best, params)
    if kept is None:
        return None
    tokens, log_weights = kept
    uniforms = noise.uniform_at(params.seed, params.choice, position, tokens, len(row.rough))
    return int(tokens[np.argmax(log_weights + noise.gumbel(uniforms))])


def _drawn_from_all(row: Row, best: float, params: SamplingParams, position: int) -> int | None:
    """The choice among all tokens: who may beat a token that is likely to lead, found without any logarithm."""
    count = len(row.rough)
    bits = noise.bits(params.seed, params.choice, position, count)
    high = (bits >> np.uint64(32)).astype(np.uint32)
    above = (~high).astype(np.float32)  # 2^32 - 1 - high: at most 2^32 (1 - u), and so at most 2^32 -log(u)
    weights = _weights(row, best, params.temperature)
    weights *= np.float32(1.0 + _error(best, params.temperature))
    weights += np.float32(_LEAST_WEIGHT)
    with np.errstate(over="ignore"):  # above any bound
        above /= weights
    likely = np.array([above.argmin()])
    lead = float((_log_weights(row, likely, best, params.temperature) + _gumbel(bits[likely]))[0])
    if not -40.0 < lead < 600.0:  # the bound below is a float32 number
        return None
    tokens = np.flatnonzero(above <= np.float32(math.exp(-lead) * 2.0**32 * (1.0 + 2.0**-18)))
    log_weights = _log_weights(row, tokens, best, params.temperature)
    tokens, log_weights = tokens[log_weights > -np.inf], log_weights[log_weights > -np.inf]
    return int(tokens[np.argmax(log_weights + _gumbel(bits[tokens]))])


def _kept(row: Row, best: float, params: SamplingParams) -> tuple[Ints, Floats] | None:
    """What top-k, top-p and min-p keep, as `select.warp` has it; None if it cannot be told, or is a large part."""
    temperature = params.temperature
    if params.top_k:
        tokens = row.best(params.top_k)
        if tokens is None:
            return None
        tokens, log_weights = _finite(row, tokens, best, temperature)
        if params.top_k < len(tokens):
            keep = best_indices(log_weights, params.top_k)
            tokens, log_weights = tokens[keep], log_weights[keep]
        if params.top_p < 1.0:
            keep = nucleus(log_weights, params.top_p)
            tokens, log_weights = tokens[keep], log_weights[keep]
    elif params.top_p < 1.0:
        kept = _nucleus_of_all(row, best, params)
        if kept is None:
            return None
        tokens, log_weights = kept
    else:
        tokens = row.at_least(best + temperature * (math.log(params.min_p) - 1e-3))
        tokens, log_weights = _finite(row, tokens, best, temperature)
    if params.min_p > 0.0:
        keep = np.flatnonzero(log_weights >= np.log(params.min_p))
        tokens, log_weights = tokens[keep], log_weights[keep]
    return tokens, log_weights


def _nucleus_of_all(row: Row, best: float, params: SamplingParams) -> tuple[Ints, Floats] | None:
    """The nucleus of a whole vocabulary, if the total weight is known well enough to tell where it ends.

    The best tokens' weights are exact, so only the rest of the total, a small share of it, is off.
    """
    rough: Floats32 | None = None
    for size in _NUCLEUS_STARTS:
        tokens = row.best(size)
        if tokens is None:
            return None
        tokens, log_weights = _finite(row, tokens, best, params.temperature)
        if len(tokens) < size:
            return None
        order = best_indices(log_weights, size) if size < len(tokens) else np.arange(size)
        order = order[np.argsort(-log_weights[order], kind="stable")]
        weights = np.exp(log_weights[order])
        if rough is None:
            rough = _weights(row, best, params.temperature)
        rough[tokens[order]] = 0.0
        rest = float(rough.sum(dtype=np.float32))
        reached = np.cumsum(weights)
        before = reached - weights
        slack = _error(best, params.temperature) * rest + len(rough) * _LEAST_WEIGHT + 1e-11 * (reached[-1] + rest)
        enough = params.top_p * (reached[-1] + rest)
        if before[-1] < enough + slack:
            continue
        count = int(np.count_nonzero(before < enough - slack))
        if count != int(np.count_nonzero(before < enough + slack)):
            return None
        keep = np.sort(order[: max(1, count)])
        return tokens[keep], log_weights[keep]
    return None


def _weights(row: Row, best: float, temperature: float) -> Floats32:
    """exp((score - best) / temperature) of every token, roughly; a new array."""
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        weights: Floats32 = row.rough - np.float32(best)
        weights *= np.float32(1.0 / temperature)
        np.exp(weights, out=weights)
    return weights


def _error(best: float, temperature: float) -> float:
    """Bound of the relative error of `_weights`, and of float32 sums of them: those above 1e-37, with room to spare."""
    return 2.0**-13 + 8.0 * _ROUNDING * abs(best) / temperature


def _log_weights(row: Row, tokens: Ints, best: float, temperature: float) -> Floats:
    scores = row.scores(tokens)
    with np.errstate(over="ignore"):
        return np.where(scores == best, 0.0, (scores - best) / temperature)


def _finite(row: Row, tokens: Ints, best: float, temperature: float) -> tuple[Ints, Floats]:
    """The tokens that are not forbidden, and their log-weights."""
    log_weights = _log_weights(row, tokens, best, temperature)
    allowed = log_weights > -np.inf
    return tokens[allowed], log_weights[allowed]


def _gumbel(bits: NDArray[np.uint64]) -> Floats:
    return noise.gumbel(noise.uniforms(bits))
