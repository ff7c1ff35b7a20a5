"""Linear layers that multiply the blocks of a GGUF file as they are: integers of four or six bits with their scales.

Their weights are those of the file without rounding; rows of activations become integers of eight bits, in steps for
each 64 columns (`block_rows.py`). What a row gives does not depend on the rows beside it.
"""

from __future__ import annotations

import torch

from decoder import dtypes
from decoder.model.linear.blocks.block_matrix import BlockMatrix
from decoder.model.linear.blocks.block_product import BlockProduct
from decoder.model.linear.integer_linear import IntegerLinear


class BlockLinear(IntegerLinear):
    """A linear layer of blocks.

    Args:
        matrix: [out, in].
        bias: [out] or None.
        dtype: of its inputs and outputs.
    """

    FORMAT = dtypes.INT4
    product: BlockProduct

    def __init__(self, matrix: BlockMatrix, bias: torch.Tensor | None, dtype: torch.dtype) -> None:
        self._set_sizes(matrix.out, matrix.columns, None if bias is None else bias.detach().to(dtype), dtype)
        self.product = BlockProduct(matrix, self.bias)

    @property
    def weight(self) -> torch.Tensor:  # type: ignore[override]
        return self.product.matrix.weight().to(self.dtype)

    def weight_rows(self, numbers: torch.Tensor) -> torch.Tensor:
        return self.product.matrix.rows(numbers).weight().to(self.dtype)

    def rows(self, numbers: torch.Tensor) -> BlockLinear:
        blocks = self.product.matrix.rows(numbers)
        return BlockLinear(BlockMatrix(iter([blocks]), len(numbers)), self._bias_of(numbers), self.dtype)
