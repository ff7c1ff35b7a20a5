"""BestTokens: a row of logits reduced to its best tokens, with a bound for all others.

A vocabulary is read where the logits are, in torch: maxima of blocks, the blocks with the greatest maxima, and those
blocks' tokens. Every other token is at most the next block's maximum. Many rows are read by one set of operations and
one transfer. Comparisons are exact in the logits' own dtype, so nothing here is rounded but the others' weight.

Knows logits; knows no parameters, no noise and no choice.
"""

from __future__ import annotations

from collections.abc import Sequence as Ids
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

_BLOCK = 64
"""Tokens of a block, which lie far apart: neighbours in a vocabulary are often good at once."""
_LOG2_E = 1.4426950408889634
FEW_BLOCKS = 64
"""Blocks whose tokens are kept at first."""
MANY_BLOCKS = 512
"""Blocks whose tokens are kept where the few do not decide."""


@dataclass(frozen=True, slots=True)
class BestTokens:
    """The tokens of one row that are better than all others.

    Attributes:
        tokens: int64 [n], ascending.
        logits: float64 [n], the raw logits of `tokens`, exact.
        bound: no other token's logit is greater; -inf if no other token is possible.
        greatest: the greatest logit of the row; not a number if one of the row's logits is none.
        others: sum of exp((logit - greatest) / temperature) over the other tokens, off by at most the share
            `weight_error` and 1e-37 a token; None if it was not asked for.
    """

    tokens: Ints
    logits: Floats
    bound: float
    greatest: float
    others: float | None


def best_tokens(
    logits: torch.Tensor, temperatures: Ids[float] | None = None, blocks: int = FEW_BLOCKS
) -> list[BestTokens]:
    """Reduce rows of logits.

    Args:
        logits: [R, V], any float dtype and device.
        temperatures: one a row, above 0, if the others' weight is wanted.
        blocks: how many blocks' tokens are kept.

    Returns:
        one a row.
    """
    rows, vocab = logits.shape
    if logits.dtype != torch.float64:
        logits = logits.float()  # which is exact, and read faster on a CPU
    width = vocab // _BLOCK
    if width <= blocks:
        width, blocks = 0, 0  # every token is kept
    parts = logits[:, : _BLOCK * width].view(rows, _BLOCK, width)
    rest = logits[:, _BLOCK * width :]
    if blocks:
        maxima, numbers = parts.amax(1).topk(blocks + 1)
        bound, numbers = maxima[:, blocks:], numbers[:, :blocks]
        kept = parts.gather(2, numbers[:, None].expand(rows, _BLOCK, blocks)).flatten(1)
        kept = torch.cat((kept, rest), 1)
        greatest = torch.maximum(maxima[:, :1], rest.amax(1, keepdim=True)) if rest.shape[1] else maxima[:, :1]
    else:
        kept, numbers = rest, torch.empty(rows, 0, dtype=torch.int64, device=logits.device)
        bound, greatest = torch.full_like(rest[:, :1], -torch.inf), rest.amax(1, keepdim=True)
    columns = [kept, numbers, bound, greatest]
    if temperatures is not None:
        columns.append(_others(parts, kept, numbers, bound, greatest, temperatures))
    table = torch.cat([column.to(logits.dtype) for column in columns], 1).to("cpu").numpy()  # the one transfer
    return [_row(line, vocab, width, blocks, temperatures is not None) for line in table]


def weight_error(scale: float) -> float:
    """Bound of the relative error of `BestTokens.others`.

    Each weight has a difference, a product and a power in float32, and is one of 64 that float32 adds up.

    Args:
        scale: the greatest logit's magnitude divided by the temperature.
    """
    return 2.0**-14 + 2.0**-20 * scale


def _others(
    parts: torch.Tensor,
    kept: torch.Tensor,
    numbers: torch.Tensor,
    bound: torch.Tensor,
    greatest: torch.Tensor,
    temperatures: Ids[float],
) -> torch.Tensor:
    """The weight of the tokens up to `bound`, in other blocks and in kept ones: float64 [R, 1]."""
    # Powers of two take torch a third of the time of powers of e.
    rates = torch.tensor([min(_LOG2_E / temperature, 1e30) for temperature in temperatures], dtype=torch.float32)
    rates, top = rates.to(parts.device)[:, None], greatest.float()
    small = ((kept.float() - top) * rates).exp2_().masked_fill_(kept > bound, 0.0)
    total = small.sum(1, keepdim=True, dtype=torch.float64)
    if parts.shape[2]:
        sums = (parts.float() - top[..., None]).mul_(rates[..., None]).exp2_().sum(1)
        total += sums.scatter_(1, numbers, 0.0).sum(1, keepdim=True, dtype=torch.float64)
    return total


def _row(line: NDArray[np.floating], vocab: int, width: int, blocks: int, weighed: bool) -> BestTokens:
    """One line of the table: logits of the kept blocks and of the tokens in no block, block numbers, and the rest."""
    size = vocab - _BLOCK * (width - blocks)
    bound, greatest = line[size + blocks], line[size + blocks + 1]
    places = np.flatnonzero(line[:size] > bound)
    if blocks:
        block = line[size : size + blocks].astype(np.int64)
        inside = places < _BLOCK * blocks
        offsets, columns = np.divmod(places, blocks)
        tokens = np.where(inside, offsets * width + block[columns], places + _BLOCK * (width - blocks))
        order = np.argsort(tokens)
        tokens, places = tokens[order], places[order]
    else:
        tokens = places
    others = float(line[-1]) if weighed else None
    return BestTokens(tokens, line[places].astype(np.float64), float(bound), float(greatest), others)
