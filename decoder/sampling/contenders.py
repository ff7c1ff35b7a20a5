"""Contenders: the few tokens that can be the choice. `select` decides among them in float64.

The float64 reading of the rules (`select.perturbed_scores`) is the oracle. A whole vocabulary in float64 takes
milliseconds. This file computes the oracle's operations for a row's best tokens alone, and for those that penalties
may raise. Any other token's score is at most the bound of `BestTokens`, since the operations are monotone. So what is
above the bound is ordered as the oracle orders it, and the choice equals the oracle's by construction.

* top-k needs k tokens above the bound, min-p a threshold above it, a greedy choice one token above it.
* top-p needs the weight of all other tokens too. It is known up to a rounding error, and the border must lie outside.
* Without these, a token up to the bound wins only if its noise exceeds the lead of the best tokens over the bound.
  Gumbel noise is -log(-log(u)), so such tokens are found by a threshold for the integers behind u.

Where this does not decide, more of the best tokens are read; where that does not decide either, and with a grammar, the
oracle reads the whole vocabulary.

Knows logits, parameters and noise; knows no tree and no model.
"""

from __future__ import annotations

import math

import numpy as np
import torch

from decoder.sampling import noise
from decoder.sampling.best_tokens import FEW_BLOCKS, MANY_BLOCKS, BestTokens, best_tokens, weight_error
from decoder.sampling.history import History
from decoder.sampling.params import SamplingParams
from decoder.sampling.processors import (
    Floats,
    Ints,
    best_indices,
    missing,
    nucleus,
    penalise,
    penalised_tokens,
    raised_tokens,
    tempered,
)


def choice(
    logits: torch.Tensor, params: SamplingParams, position: int, history: History, best: BestTokens | None = None
) -> int | None:
    """The token that the oracle chooses; None if a row's best tokens cannot tell. Arguments as `select.select`."""
    if has_grammar(history):
        return None
    if best is None and params.top_k < FEW_BLOCKS:
        best = best_tokens(logits[None], temperatures([params]))[0]
    token = None if best is None else _decided(best, logits, params, position, history)
    if token is None and (best is None or best.bound > -math.inf):
        best = best_tokens(logits[None], temperatures([params]), MANY_BLOCKS)[0]
        token = _decided(best, logits, params, position, history)
    return token


def has_grammar(history: History) -> bool:
    """Whether a grammar limits the next token."""
    return history.grammar is not None and history.complete_after is None


def temperatures(params: list[SamplingParams]) -> list[float] | None:
    """What `best_tokens` weighs the other tokens by; None if no answer needs their weight."""
    if any(one.top_p < 1.0 and not one.top_k and one.temperature for one in params):
        return [one.temperature or 1.0 for one in params]
    return None


class _Row:
    """The scores of a row's best tokens.

    Attributes:
        tokens, scores: int64 [n] ascending, and float64 [n], of the best tokens and those that penalties may raise.
        bound: no other token's score is greater.
    """

    def __init__(self, best: BestTokens, logits: torch.Tensor, params: SamplingParams, history: History) -> None:
        self._logits, self._params, self._history, self._best = logits, params, history, best
        self.vocab = len(logits)
        self.tokens, raw = best.tokens, best.logits
        raised = raised_tokens(self.vocab, params, history)
        if len(raised):
            raised = raised[missing(raised, best.tokens)]
            self.tokens = np.concatenate([best.tokens, raised])
            order = np.argsort(self.tokens)
            self.tokens, raw = self.tokens[order], np.concatenate([raw, self.raw(raised)])[order]
        self.scores = self.penalised(raw.copy(), self.tokens)
        self.bound = best.bound
        self.best = float(self.scores.max(initial=-math.inf))

    def raw(self, tokens: Ints) -> Floats:
        """Raw logits of tokens: float64 [n]."""
        if not len(tokens):
            return np.empty(0)
        raw: Floats = self._logits[torch.from_numpy(tokens).to(self._logits.device)].to("cpu", torch.float64).numpy()
        return raw

    def penalised(self, raw: Floats, tokens: Ints) -> Floats:
        """Raw logits of ascending tokens with penalties and bias, in place."""
        return penalise(raw, tokens, self.vocab, self._params, self._history)

    def log_weights(self, scores: Floats) -> Floats:
        return tempered(scores, self.best, self._params.temperature)

    def others(self) -> tuple[float, float] | None:
        """The weight of all tokens that are not among `tokens`, relative to the best, and its error."""
        best, temperature = self._best, self._params.temperature
        if best.others is None or not 1e-30 < temperature < 1e30 or best.greatest - self.best > 500.0 * temperature:
            return None
        unit = math.exp((best.greatest - self.best) / temperature)
        weight = best.others * unit
        error = weight_error(abs(best.greatest) / temperature) * weight + 1e-37 * self.vocab * unit
        changed = penalised_tokens(self.vocab, self._params, self._history)
        if len(changed):  # raw weights go; those of tokens that are not in `tokens` come back penalised
            raw = self.raw(changed)
            changed, raw = changed[raw <= best.bound], raw[raw <= best.bound]
            weight -= float(np.exp(self.log_weights(raw)).sum())
            elsewhere = missing(changed, self.tokens)
            scores = self.penalised(raw[elsewhere], changed[elsewhere])
            weight += float(np.exp(self.log_weights(scores)).sum())
        return (weight, error) if math.isfinite(weight) and math.isfinite(error) else None


def _decided(
    best: BestTokens, logits: torch.Tensor, params: SamplingParams, position: int, history: History
) -> int | None:
    if not math.isfinite(best.greatest):
        return None
    row = _Row(best, logits, params, history)
    if not math.isfinite(row.best) or row.best < row.bound:
        return None
    if params.temperature == 0.0:
        return int(row.tokens[np.argmax(row.scores)]) if row.best > row.bound else None
    log_weights = row.log_weights(row.scores)
    bound = float(row.log_weights(np.array([row.bound]))[0])
    allowed = log_weights > -np.inf
    tokens, log_weights = row.tokens[allowed], log_weights[allowed]
    if params.draws_from_all:
        return _drawn_from_all(row, tokens, log_weights, bound, params, position)
    kept = _kept(row, log_weights, bound, params)
    if kept is None:
        return None
    tokens, log_weights = tokens[kept], log_weights[kept]
    uniforms = noise.uniform_at(params.seed, params.choice, position, tokens, len(logits))
    return int(tokens[np.argmax(log_weights + noise.gumbel(uniforms))])


def _kept(row: _Row, log_weights: Floats, bound: float, params: SamplingParams) -> Ints | None:
    """The places of what top-k, top-p and min-p keep, as `select.warp` has it; None if it cannot be told."""
    kept = np.arange(len(log_weights))
    if params.top_k:
        if params.top_k < len(log_weights):
            kept = best_indices(log_weights, params.top_k)
        if bound > -math.inf and (len(kept) < params.top_k or log_weights[kept].min() <= bound):
            return None
        if params.top_p < 1.0:
            kept = kept[nucleus(log_weights[kept], params.top_p)]
    elif params.top_p < 1.0:
        found = _nucleus_of_all(row, log_weights, bound, params.top_p)
        if found is None:
            return None
        kept = found
    elif bound >= np.log(params.min_p):
        return None
    if params.min_p > 0.0:
        kept = kept[log_weights[kept] >= np.log(params.min_p)]
    return kept


def _nucleus_of_all(row: _Row, log_weights: Floats, bound: float, top_p: float) -> Ints | None:
    """The places of a whole vocabulary's nucleus, if all weights are known well enough to tell where it ends."""
    others = row.others()
    if others is None:
        return None
    rest, slack = others
    order = np.argsort(-log_weights, kind="stable")
    weights = np.exp(log_weights[order])
    above = int(np.count_nonzero(log_weights > bound))  # behind them, the order is not known
    reached = np.cumsum(weights)
    total = float(reached[-1]) + rest
    before = reached - weights
    enough = top_p * total
    slack += 1e-11 * total
    count = int(np.count_nonzero(before < enough - slack))
    if count != int(np.count_nonzero(before < enough + slack)) or count > above:
        return None
    if count == len(order) and bound > -math.inf and reached[-1] < enough + slack:
        return None
    return np.sort(order[: max(1, count)])


def _drawn_from_all(
    row: _Row, tokens: Ints, log_weights: Floats, bound: float, params: SamplingParams, position: int
) -> int:
    """The choice among all tokens: the best ones, and those with the noise to beat them from the bound or below."""
    stream = noise.stream(params.seed, params.choice, position, row.vocab)
    bits = stream.bits
    scores = log_weights + noise.gumbel(noise.uniforms(bits[tokens]))
    if bound == -math.inf:
        return int(tokens[np.argmax(scores)])
    lead = float(scores.max()) - bound
    # The margin is far above the rounding of the numbers compared.
    loud = noise.loud(stream, lead - 1e-9 * (1.0 + abs(lead) + abs(bound)))
    if len(loud):
        loud = loud[missing(loud, row.tokens)]
        more = row.log_weights(row.penalised(row.raw(loud), loud))
        loud, more = loud[more > -np.inf], more[more > -np.inf]
        tokens = np.concatenate([tokens, loud])
        order = np.argsort(tokens)
        tokens = tokens[order]
        scores = np.concatenate([scores, more + noise.gumbel(noise.uniforms(bits[loud]))])[order]
    return int(tokens[np.argmax(scores)])
