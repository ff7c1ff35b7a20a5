"""A stock model's linear layers as layers of integers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from decoder.model.linear.blocks.block_linear import BlockLinear
from decoder.model.linear.blocks.block_matrix import BlockMatrix
from decoder.model.linear.int8.int8_linear import Int8Linear
from decoder.model.linear.integer_linear import IntegerLinear
from decoder.model.linear.tiled_linear import TiledLinear
from decoder.weights.gguf_blocks import BlockFormat

BlocksOf = Callable[[str], tuple[torch.Tensor, BlockFormat] | None]
"""The blocks of a weight by its name, as `BlockMatrix.from_file` takes them; None if it has none."""


def quantise(model: Any, dtype: torch.dtype = torch.bfloat16, blocks_of: BlocksOf | None = None) -> None:
    """Replace a stock model's linear layers, its output matrix included, and convert its other weights to `dtype`.

    The embeddings stay as they are, in `dtype`: a lookup reads a few rows, so integers would gain no time there. An
    output matrix that was tied to them becomes one of its own. Each layer's original weights are dropped before the
    next layer is converted.

    Args:
        model: on the CPU, in any floating dtype.
        dtype: of activations and of the other weights.
        blocks_of: gives the blocks of layers that have some. The others become int8 layers.
    """
    with torch.no_grad():
        for prefix, module in list(model.named_modules()):  # the output matrix comes before embeddings tied to it
            for name, child in list(module.named_children()):
                if type(child) is torch.nn.Linear:
                    blocks = None if blocks_of is None else blocks_of(f"{prefix}.{name}.weight".lstrip("."))
                    setattr(module, name, _layer(child, blocks, dtype))
                    child.weight = child.bias = None  # type: ignore[assignment]
            for weight in module.parameters(recurse=False):
                weight.data = weight.data.to(dtype)
    model.config.dtype = dtype
    model.config.tie_word_embeddings = False


def _layer(
    stock: torch.nn.Linear, blocks: tuple[torch.Tensor, BlockFormat] | None, dtype: torch.dtype
) -> IntegerLinear:
    if blocks is None:
        return Int8Linear(stock.weight, stock.bias, dtype)
    return BlockLinear(BlockMatrix.from_file(*blocks), stock.bias, dtype)


def formats_of(model: Any) -> frozenset[str]:
    """The number formats of a model's layers of integers, as `load_engine` names them; empty without such layers."""
    return frozenset(module.FORMAT for module in model.modules() if isinstance(module, IntegerLinear))


def rows_of(layer: torch.nn.Linear, numbers: torch.Tensor) -> torch.Tensor:
    """The weights of some outputs of a linear layer, int64 [n] -> [n, in]."""
    if isinstance(layer, IntegerLinear):
        return layer.weight_rows(numbers)
    if isinstance(layer, TiledLinear):
        return layer.matrix.rows(numbers)
    return layer.weight[numbers]
