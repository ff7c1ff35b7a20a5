"""Bitwise passes: a row's logits have the same bits in every pass, whatever other rows the pass has. On CPUs.

So the logits of a draft's rows **equal** those of plain decoding, and no tie can go another way. Three things are
needed:

* Linear layers always use oneDNN's packed product. From two rows up, its bits depend neither on the number of rows nor
  on a row's place among them; where they do (bfloat16 on matrix units), products of exactly `ROWS` rows still agree.
  Those of layers of integers do not depend on other rows anyway (`linear/integer_linear.py`), and our own code for
  bfloat16 and float32 (`linear/tiled_linear.py`) adds a row's products in one order.
* Attention goes along paths (`paths/path_attention.py`): our own code, which adds a row's keys in the order of its
  text.
* Activations are computed so that every element is a part of a vector: torch takes another function for what is left
  over at the end of a thread's share. Our own code (`layers/gated_mlp.py`) has one for all.

What the libraries do here was seen and is not promised, so `bitwise_check.py` compares whole passes when a model is
loaded.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F

from decoder.errors import BitwiseUnavailable
from decoder.model.architecture import head_dim
from decoder.model.layers import gated_mlp
from decoder.model.linear.integer_linear import IntegerLinear
from decoder.model.linear.packed_linear import PackedLinear
from decoder.model.linear.tiled_linear import TiledLinear
from decoder.model.paths import path_attention

ROWS = 64
"""Rows of each product where their number matters."""
VECTOR = 64
"""Elements after which an activation's vectors end."""
SHARE = 32768
"""Most elements that torch leaves to one thread."""


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


def is_free(model: Any) -> bool:
    """Whether bitwise passes of a model run the kernels of its usual ones, so that they cost nothing."""
    return (
        _fits(model)
        and path_attention.available(model.dtype, head_dim(model.config))
        and not path_attention.has_matrix_units()
        and head_dim(model.config) % path_attention.LANES == 0
        and not _library_layers(model)
        and not _other_products(model)
    )


def make_bitwise(model: Any) -> None:
    """Turn a model's packed layers and activations into bitwise ones. Layers of integers and tiled ones are.

    Raises:
        BitwiseUnavailable: the model is not on a CPU, in a dtype that is not packed, its layers are not packed, or
            there is no code for its attention.
    """
    if not _fits(model):
        kind = f"{str(model.dtype).removeprefix('torch.')} on {model.device.type}"
        raise BitwiseUnavailable(
            f"the model is {kind}; load it with dtype float32, bfloat16, int8 or int4 on the device cpu"
        )
    if not path_attention.available(model.dtype, head_dim(model.config)):
        raise BitwiseUnavailable(
            "attention needs an x86 processor with AVX2, and llvmlite (pip install -e '.[native]'); "
            "else leave exact at its default"
        )
    layers = _library_layers(model)
    if any(type(layer) is not PackedLinear for layer in layers):
        raise BitwiseUnavailable("its weights could not be packed; free some memory, or take a smaller model")
    for layer in layers:
        layer.__class__ = BitwiseLinear
    for layer in model.get_decoder().layers:
        mlp: Any = getattr(layer, "mlp", None)
        activation = getattr(mlp, "act_fn", None)
        if isinstance(activation, torch.nn.Module) and not gated_mlp.speeds_up(mlp):
            mlp.act_fn = BitwiseActivation(activation)


def _fits(model: Any) -> bool:
    return model.device.type == "cpu" and model.dtype in {torch.float32, torch.bfloat16}


def _library_layers(model: Any) -> list[torch.nn.Linear]:
    """The linear layers that a library multiplies."""
    return [
        layer
        for layer in model.modules()
        if isinstance(layer, torch.nn.Linear) and not isinstance(layer, (IntegerLinear, TiledLinear))
    ]


def _other_products(model: Any) -> bool:
    """Whether a module that is no linear layer has a matrix: experts, convolutions. Embeddings multiply nothing."""
    return any(
        parameter.ndim > 1
        for module in model.modules()
        if not isinstance(module, (torch.nn.Linear, torch.nn.Embedding))
        for parameter in module.parameters(recurse=False)
    )


def fix_rows(model: Any, fixed: bool) -> None:
    """Whether the bitwise layers' products have exactly `ROWS` rows."""
    for layer in model.modules():
        if isinstance(layer, BitwiseLinear):
            layer.fixed = fixed
