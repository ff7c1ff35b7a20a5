"""Linear layers that multiply the same rows, as one product: of queries, keys and values, and of a gate's two halves.

A product of a few rows is short, and before each one its rows are rounded, the code is called and threads are waited
for. So the first of these layers that is called multiplies its rows by the weights of all, and each hands out its part,
with the same bits.

Knows layers and the names that models give them; knows no number format.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from itertools import accumulate
from typing import Any, Protocol, cast

import torch

from decoder.model.linear.calls import Call, Empty, PreparedProduct

NAMES = (("q_proj", "k_proj", "v_proj"), ("gate_proj", "up_proj"))
"""Of layers of one module that it gives the same rows."""

Product = Callable[[torch.Tensor, torch.Tensor], None]
"""[n, in], writes [n, out]."""


class Joinable(Protocol):
    """A linear layer that may be a part of a joint product."""

    in_features: int
    out_features: int
    part: Part | None
    """Its part of a joint product, if there is one."""

    @property
    def kind(self) -> Hashable | None:
        """The same for layers whose products can be joined; None for one that cannot."""

    def joined(self, layers: Sequence[Any]) -> Product:
        """The product with the weights of all of these layers, of its kind; they share the memory of its weights."""


class Part:
    """One layer's part of a joint product.

    Args:
        joint: the product.
        number: of the layer.
        layers: all of the product's.
    """

    def __init__(self, joint: Joint, number: int, layers: Sequence[Joinable] = ()) -> None:
        self.joint, self.number, self._layers = joint, number, layers

    def dissolve(self) -> None:
        """End the product: each layer multiplies by itself again."""
        for layer in self._layers:
            layer.part = None

    def __call__(self, input: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
        """[..., in] -> [..., out] in `dtype`, a view if there are several rows."""
        return self.joint.part(self.number, input, dtype)


class Joint:
    """The product of some rows with the weights of several layers.

    The rows must not change between the calls of its layers, as none of our models' do.

    Args:
        product: with all weights.
        sizes: outputs of each layer, in order.
    """

    def __init__(self, product: Product, sizes: Sequence[int]) -> None:
        self.product = product
        self.spans = list(zip(accumulate([0, *sizes[:-1]]), sizes, strict=True))
        """The first output of each layer, and how many."""
        self.width = sum(sizes)
        self._input: torch.Tensor | None = None
        """What the parts are of; kept until all are handed out, so that no other tensor takes its place in memory."""
        self._parts: list[torch.Tensor | None] = []

    def part(self, number: int, input: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
        """That of one layer. A part is handed out once."""
        if self._input is not input or self._parts[number] is None:
            rows = input.reshape(-1, input.shape[-1])
            output = torch.empty(rows.shape[0], self.width, dtype=dtype)
            self.product(rows, output)
            output = output.view(*input.shape[:-1], self.width)
            self._input, self._parts = input, [output.narrow(-1, *span) for span in self.spans]
        part = cast("torch.Tensor", self._parts[number])
        self._parts[number] = None
        if all(other is None for other in self._parts):
            self._input = None
        return part


def calls(layers: Sequence[Any], rows: torch.Tensor, empty: Empty) -> tuple[list[Call], list[torch.Tensor]]:
    """The calls that multiply the same rows by the weights of some layers, and the output of each.

    Args:
        layers: with those whose products are joined to one of theirs.
        rows: [n, in], not too many and contiguous.
        empty: makes room.

    Returns:
        the calls; for each layer [n, out], which may be a view.

    Raises:
        AttributeError, RuntimeError: there is no code for a product, or its outputs have others behind them.
    """
    made: list[Call] = []
    whole: dict[int, torch.Tensor] = {}
    outputs = []
    for layer in layers:
        part = layer.part
        product: PreparedProduct = layer.product if part is None else part.joint.product
        width = layer.out_features if part is None else part.joint.width
        if product.width != width:
            raise RuntimeError("tiles are filled up with outputs of no layer")
        if (key := id(layer if part is None else part.joint)) not in whole:
            whole[key] = empty(rows.shape[0], width, dtype=rows.dtype)
            made += product.calls(rows, whole[key], empty)
        outputs.append(whole[key] if part is None else whole[key].narrow(1, *part.joint.spans[part.number]))
    return made, outputs


def join(model: Any) -> int:
    """Join the products of a model's layers that can be. Returns the number of joint products."""
    count = 0
    for module in model.modules():
        for names in NAMES:
            by_kind: dict[Hashable, list[Joinable]] = {}
            for layer in (getattr(module, name, None) for name in names):
                if (kind := getattr(layer, "kind", None)) is not None and getattr(layer, "part", None) is None:
                    by_kind.setdefault(kind, []).append(cast("Joinable", layer))
            for layers in by_kind.values():
                if len(layers) > 1:
                    joint = Joint(layers[0].joined(layers), [layer.out_features for layer in layers])
                    for number, layer in enumerate(layers):
                        layer.part = Part(joint, number, layers)
                    count += 1
    return count
