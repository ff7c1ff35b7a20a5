"""Bitwise passes: a row's logits have the same bits in every pass, whatever other rows the pass has. On CPUs.

So the logits of a draft's rows **equal** those of plain decoding, and no tie can go another way. Three things are
needed:

* Linear layers always use oneDNN's packed product. From two rows up, its bits depend neither on the number of rows nor
  on a row's place among them; where they do (bfloat16 on matrix units), products of exactly `ROWS` rows still agree.
  Those of layers of integers do not depend on other rows anyway (`linear/integer_linear.py`), and our own code for
  bfloat16 and float32 (`linear/tiled_linear.py`) adds a row's products in one order.
* Attention, in float32, sums over keys in an order that depends on their positions only. Scores are single products.
  Their exponentials are multiplied with the values in blocks of `BLOCK` positions, and the blocks' results added in
  order. A draft's other branches lie between the keys of a row's own path; their weight is 0, and adding 0 changes no
  bit. That holds for products of up to 192 keys (AVX2; some 300 on AVX-512), which the library sums one after the
  other; longer ones it splits. So a draft may have 128 tokens at the positions of one block.
* Activations are computed so that every element is a part of a vector: torch takes another function for what is left
  over at the end of a thread's share.

This is what the libraries do on processors seen so far and not what they promise, so `bitwise_check.py` compares whole
passes when a model is loaded.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch
import torch.nn.functional as F

from decoder.errors import BitwiseUnavailable
from decoder.model.linear.integer_linear import IntegerLinear
from decoder.model.linear.packed_linear import PackedLinear
from decoder.model.linear.tiled_linear import TiledLinear

BLOCK = 64
"""Positions whose values are summed in one product."""
ROWS = 64
"""Rows of each product where their number matters."""
VECTOR = 64
"""Elements after which an activation's vectors end."""
SHARE = 32768
"""Most elements that torch leaves to one thread."""
FEWEST = 16
"""Least rows and keys of attention's products: fewer run other kernels (below 8 on AVX-512, below 12 on AVX2)."""
MOST_ROWS = 128
"""Most rows of a prompt whose scores are in memory at once."""


@dataclass(frozen=True, slots=True)
class Block:
    """A block of positions: the keys from the first to the last one in it.

    `kept`: float32, 1 for those that are in it, 0 for others between them; None if all are.
    """

    first: int
    past: int
    kept: torch.Tensor | None = None


class BitwiseActivation(torch.nn.Module):
    """An activation whose every element goes through the same instructions."""

    def __init__(self, activation: torch.nn.Module) -> None:
        super().__init__()
        self.activation = activation

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        width = input.shape[-1]
        if width % (VECTOR * torch.get_num_threads()) == 0:
            return self._of(input)  # a thread's share ends with a vector
        rows = F.pad(input, (0, -width % VECTOR)).reshape(-1, width + -width % VECTOR)
        parts = [self._of(part) for part in torch.split(rows, max(1, SHARE // rows.shape[1]))]
        return torch.cat(parts)[:, :width].reshape(input.shape)

    def _of(self, rows: torch.Tensor) -> torch.Tensor:
        activated: torch.Tensor = self.activation(rows)
        return activated


class BitwiseLinear(PackedLinear):
    """A packed layer that runs the same kernel for any number of rows."""

    fixed = False
    """Whether every product has exactly `ROWS` rows; else it has at least two."""

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        count = input.numel() // input.shape[-1]
        if count > 1 and not self.fixed:
            return self._product(input)
        rows = F.pad(input.reshape(count, -1), (0, 0, 0, -count % ROWS if self.fixed else 1))
        parts = [self._product(part) for part in (torch.split(rows, ROWS) if self.fixed else [rows])]
        product = parts[0] if len(parts) == 1 else torch.cat(parts)
        return product[:count].reshape(*input.shape[:-1], product.shape[-1])

    def _product(self, rows: torch.Tensor) -> torch.Tensor:
        product: torch.Tensor = torch.ops.mkldnn._linear_pointwise(rows, self.packed, self.bias, "none", [], "")
        return product


def make_bitwise(model: Any) -> None:
    """Turn a model's packed layers and activations into bitwise ones. Layers of integers and tiled ones are.

    Raises:
        BitwiseUnavailable: the model is not on a CPU, in a dtype that is not packed, or its layers are not packed.
    """
    if model.device.type != "cpu" or model.dtype not in {torch.float32, torch.bfloat16}:
        kind = f"{str(model.dtype).removeprefix('torch.')} on {model.device.type}"
        raise BitwiseUnavailable(
            f"the model is {kind}; load it with dtype float32, bfloat16, int8 or int4 on the device cpu"
        )
    layers = [
        layer
        for layer in model.modules()
        if isinstance(layer, torch.nn.Linear) and not isinstance(layer, (IntegerLinear, TiledLinear))
    ]
    if any(type(layer) is not PackedLinear for layer in layers):
        raise BitwiseUnavailable("its weights could not be packed; free some memory, or take a smaller model")
    for layer in layers:
        layer.__class__ = BitwiseLinear
    for layer in model.get_decoder().layers:
        activation = getattr(layer.mlp, "act_fn", None)
        if isinstance(activation, torch.nn.Module):
            layer.mlp.act_fn = BitwiseActivation(activation)


def fix_rows(model: Any, fixed: bool) -> None:
    """Whether the bitwise layers' products have exactly `ROWS` rows."""
    for layer in model.modules():
        if isinstance(layer, BitwiseLinear):
            layer.fixed = fixed


def attend(
    query: torch.Tensor,
    keys: torch.Tensor,
    values: torch.Tensor,
    mask: torch.Tensor | None,
    blocks: Sequence[Block],
    scaling: float | None = None,
) -> torch.Tensor:
    """Attention of one sequence's rows.

    Args:
        query: [1, heads, n, d].
        keys, values: [1, kv_heads, S, d]; the last n are the rows' own.
        mask: bool [n, S], True if a row sees a key; it sees all keys before the pass's own n. None if it sees every
            key up to its own.
        blocks: those of all S keys, in order.
        scaling: factor of query-key products; d ** -0.5 by default.

    Returns:
        [1, heads, n, d].
    """
    _, heads, rows, dim = query.shape
    grouped = query[0].float().reshape(keys.shape[1], heads // keys.shape[1], rows, dim)
    keys, values = keys[0].float(), values[0].float()
    parts = []
    for first in range(0, rows, MOST_ROWS):
        past = min(first + MOST_ROWS, rows)
        own = None if mask is None else mask[first:past, -rows:]
        if own is None:
            own = torch.ones(past - first, rows, dtype=torch.bool).tril_(first)
        parts.append(_attend(grouped[:, :, first:past], keys, values, own, blocks, scaling or dim**-0.5))
    return torch.cat(parts, dim=2).reshape(1, heads, rows, dim).to(query.dtype)


def _attend(
    query: torch.Tensor,
    keys: torch.Tensor,
    values: torch.Tensor,
    own: torch.Tensor,
    blocks: Sequence[Block],
    scaling: float,
) -> torch.Tensor:
    """Some rows' attention: query [kv_heads, groups, m, d] -> the same shape; own [m, n]: which own keys they see."""
    kv_heads, groups, rows, dim = query.shape
    flat = _at_least(query.reshape(kv_heads, groups * rows, dim))
    scores = torch.bmm(flat, _at_least(keys).transpose(1, 2))[:, :, : keys.shape[1]].mul_(scaling)
    seen = scores[:, : groups * rows].view(kv_heads, groups, rows, -1)[..., -own.shape[1] :]
    seen.masked_fill_(~own, float("-inf"))
    weights = torch.exp(scores - scores.amax(-1, keepdim=True))
    ones = _ones(kv_heads, max(FEWEST, *(block.past - block.first for block in blocks)))
    output, total = torch.zeros(()), torch.zeros(())
    for block in blocks:
        part = weights[:, :, block.first : block.past]
        if block.kept is not None:
            part = part * block.kept
        lacking = max(0, FEWEST - part.shape[2])
        part = F.pad(part, (0, lacking))
        output = output + torch.bmm(part, F.pad(values[:, block.first : block.past], (0, 0, 0, lacking)))
        total = total + torch.bmm(part, ones[:, : part.shape[2]])
    output = output / total[..., :1]
    return output[:, : groups * rows].reshape(kv_heads, groups, rows, dim)


@cache
def _ones(heads: int, keys: int) -> torch.Tensor:
    """[heads, keys, FEWEST]: a product with them sums the weights in the same order as the one with the values."""
    return torch.ones(heads, keys, FEWEST)


def _at_least(rows: torch.Tensor) -> torch.Tensor:
    """[heads, n, d] with zeros added up to `FEWEST`."""
    lacking = FEWEST - rows.shape[1]
    return F.pad(rows, (0, 0, 0, lacking)) if lacking > 0 else rows


def blocks(before: int, positions: Sequence[int]) -> list[Block]:
    """The blocks of a sequence's keys: `before` ones at the positions 0, 1, 2, …, then those at `positions`."""
    whole = before // BLOCK
    found = [Block(n * BLOCK, (n + 1) * BLOCK) for n in range(whole)]
    numbers = torch.tensor([*range(whole * BLOCK, before), *positions]) // BLOCK
    for number in range(whole, int(numbers.max()) + 1):
        inside = numbers == number
        places = inside.nonzero()[:, 0]
        first, past = int(places[0]), int(places[-1]) + 1
        kept = None if len(places) == past - first else inside[first:past].float()
        found.append(Block(whole * BLOCK + first, whole * BLOCK + past, kept))
    return found
