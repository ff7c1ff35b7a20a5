"""What linear layers of integers have in common: a product that is kept instead of a weight.

Knows layers and their products; knows no number format.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any, ClassVar, Protocol

import torch
import torch.nn.functional as F

from decoder.model.linear.joint import Part


class LayerProduct(Protocol):
    """The integers of a layer, in the order that its kernel reads, with their scales."""

    @property
    def nbytes(self) -> int:
        """Bytes of all that is kept."""

    @property
    def kind(self) -> Hashable | None:
        """The same for products whose weights `joined` takes together, so that they share the memory of the whole; None
        for one that has no such method."""

    def __call__(self, rows: torch.Tensor, output: torch.Tensor) -> None:
        """[n, in] of any floating dtype, writes [n, out]."""


class IntegerLinear(torch.nn.Linear):
    """A linear layer whose weights are integers with scales.

    Attributes:
        FORMAT: what `load_engine` calls its number format.
        product: multiplies rows.
        dtype: of its inputs and outputs.
        part: what it is of a joint product.
    """

    FORMAT: ClassVar[str]
    product: LayerProduct
    dtype: torch.dtype
    part: Part | None = None

    def _set_sizes(self, out: int, columns: int, bias: torch.Tensor | None, dtype: torch.dtype) -> None:
        torch.nn.Module.__init__(self)
        self.out_features, self.in_features, self.dtype = out, columns, dtype
        self.register_parameter("bias", None if bias is None else torch.nn.Parameter(bias, requires_grad=False))

    @property
    def weight(self) -> torch.Tensor:  # type: ignore[override]
        """[out, in], what the layer multiplies by, rounded to its dtype. It is computed at every access."""
        raise NotImplementedError

    @property
    def nbytes(self) -> int:
        """Bytes of what is kept beside parameters and buffers."""
        return self.product.nbytes

    @property
    def kind(self) -> Hashable | None:
        """As `Joinable.kind`."""
        kind = self.product.kind
        return None if kind is None else (type(self.product), self.dtype, kind)

    def joined(self, layers: Sequence[IntegerLinear]) -> LayerProduct:
        """As `Joinable.joined`."""
        first: Any = self.product
        whole: LayerProduct = first.joined([layer.product for layer in layers])
        return whole

    def weight_rows(self, numbers: torch.Tensor) -> torch.Tensor:
        """The weights of some outputs, int64 [n] -> [n, in]."""
        raise NotImplementedError

    def rows(self, numbers: torch.Tensor) -> IntegerLinear:
        """A layer of some of the outputs, int64 [n]."""
        raise NotImplementedError

    def _bias_of(self, numbers: torch.Tensor) -> torch.Tensor | None:
        return None if self.bias is None else self.bias.detach()[numbers]

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        if input.requires_grad and torch.is_grad_enabled():
            return F.linear(input, self.weight, self.bias)
        if self.part is not None:
            return self.part(input, self.dtype)
        rows = input.reshape(-1, self.in_features)
        output = torch.empty(rows.shape[0], self.out_features, dtype=self.dtype)
        self.product(rows, output)
        return output.view(*input.shape[:-1], self.out_features)

    def extra_repr(self) -> str:
        return f"in_features={self.in_features}, out_features={self.out_features}, bias={self.bias is not None}"
