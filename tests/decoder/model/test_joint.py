"""Layers that multiply the same rows, as one product: the same bits, the same weights, and no more memory."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from decoder.model.linear import joint, tiled_linear
from decoder.model.linear.blocks.block_linear import BlockLinear
from decoder.model.linear.blocks.block_matrix import BlockMatrix
from decoder.model.linear.int8 import vnni
from decoder.model.linear.int8.int8_linear import Int8Linear
from decoder.model.linear.integer_linear import IntegerLinear
from decoder.model.linear.tiled_linear import TiledLinear
from decoder.weights.gguf_blocks import BlockFormat
from tests.support.models.file_bytes import needs_int4, random_bytes

COLUMNS = 512
Layer = IntegerLinear | TiledLinear
Make = Callable[[int, int], Layer]
"""Outputs and a seed -> a layer."""


def weights(out: int, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    source = torch.Generator().manual_seed(seed)
    return torch.randn(out, COLUMNS, generator=source) / 20, torch.randn(out, generator=source)


def int8(out: int, seed: int) -> Layer:
    return Int8Linear(*weights(out, seed), torch.bfloat16)


def int4(out: int, seed: int, kind: BlockFormat = "Q4_K") -> Layer:
    data = random_bytes(out + seed, 2, kind)[:out].clone()
    return BlockLinear(BlockMatrix.from_file(data, kind), weights(out, seed)[1], torch.bfloat16)


def tiled(out: int, seed: int, dtype: torch.dtype = torch.bfloat16) -> Layer:
    made = torch.nn.Linear(COLUMNS, out, dtype=dtype).requires_grad_(False)
    for parameter, value in zip((made.weight, made.bias), weights(out, seed), strict=True):
        parameter.copy_(value)
    tiled_linear.tile(made)
    assert isinstance(made, TiledLinear)
    return made


def exact(out: int, seed: int) -> Layer:
    return tiled(out, seed, torch.float32)


FORMATS = [
    pytest.param(int8, marks=pytest.mark.skipif(not vnni.suits(), reason="the processor has no AVX-512 VNNI, or AMX")),
    pytest.param(int4, marks=needs_int4),
    *(
        pytest.param(
            make,
            marks=pytest.mark.skipif(not tiled_linear.suits(one), reason="the processor has no AVX-512 for it, or AMX"),
        )
        for make, one in ((tiled, torch.bfloat16), (exact, torch.float32))
    ),
]


def module(**layers: torch.nn.Module) -> torch.nn.Module:
    made = torch.nn.Module()
    for name, layer in layers.items():
        made.add_module(name, layer)
    return made


def rows(count: int, dtype: torch.dtype = torch.bfloat16, seed: int = 5) -> torch.Tensor:
    return torch.randn(1, count, COLUMNS, generator=torch.Generator().manual_seed(seed)).to(dtype)


@pytest.mark.parametrize("make", FORMATS)
def test_the_parts_are_what_the_layers_give_apart(make: Make) -> None:
    names = ("q_proj", "k_proj", "v_proj")
    layers, apart = ([make(out, seed) for seed, out in enumerate((256, 64, 128))] for _ in range(2))
    kept = [layer.weight.clone() for layer in layers]
    whole = module(**dict(zip(names, layers, strict=True)))
    assert joint.join(whole) == 1
    assert joint.join(whole) == 0, "once"
    dtype = torch.float32 if make is exact else torch.bfloat16
    for count in (1, 2, 7, 200):
        given = rows(count, dtype)
        for layer, other in zip(layers, apart, strict=True):
            found = layer(given)
            assert found.shape == (1, count, layer.out_features)
            assert found.dtype is dtype
            assert torch.equal(found, other(given))
    for layer, weight in zip(layers, kept, strict=True):
        assert torch.equal(layer.weight, weight)
        assert torch.equal(layer(rows(3, dtype)), layer(rows(3, dtype)))


@pytest.mark.parametrize("make", FORMATS)
def test_weights_are_kept_once(make: Make) -> None:
    gate, up = make(128, 1), make(192, 2)
    before = gate.nbytes + up.nbytes
    joint.join(module(gate_proj=gate, up_proj=up))
    assert gate.nbytes + up.nbytes == before
    stored = {_weights_of(layer).untyped_storage().data_ptr() for layer in (gate, up)}
    assert len(stored) == 1, "both in the memory of the joint product"


def _weights_of(layer: Layer) -> torch.Tensor:
    if isinstance(layer, TiledLinear):
        return layer.matrix.tiles
    matrix = getattr(layer.product, "matrix", None) or layer.product._matrix  # type: ignore[attr-defined]
    return matrix.records if isinstance(matrix, BlockMatrix) else matrix.tiles  # type: ignore[no-any-return]


class Counted:
    """A product that counts its calls: each output is the sum of a row, and its number."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, given: torch.Tensor, output: torch.Tensor) -> None:
        self.calls += 1
        output.copy_(given.sum(1, keepdim=True) + torch.arange(output.shape[1]))


def test_rows_are_multiplied_once_for_all_layers() -> None:
    product = Counted()
    made = joint.Joint(product, [2, 3])
    first, second = joint.Part(made, 0), joint.Part(made, 1)
    given, other = torch.ones(1, 2, 4), torch.zeros(1, 2, 4)
    assert first(given, torch.float32).tolist() == [[[4, 5], [4, 5]]]
    assert second(given, torch.float32).tolist() == [[[6, 7, 8], [6, 7, 8]]]
    assert product.calls == 1
    assert second(other, torch.float32)[0, 0].tolist() == [2, 3, 4]
    assert first(given, torch.float32)[0, 0].tolist() == [4, 5]
    assert second(other, torch.float32)[0, 0].tolist() == [2, 3, 4], "of its own rows, whatever came between"
    assert product.calls == 4


def test_a_part_is_handed_out_once() -> None:
    """Who changes what a layer gave, as adapters do, changes no later call's."""
    product = Counted()
    made = joint.Joint(product, [2, 3])
    first = joint.Part(made, 0)
    given = torch.ones(1, 1, 4)
    first(given, torch.float32).zero_()
    assert first(given, torch.float32).tolist() == [[[4, 5]]]
    assert product.calls == 2


@needs_int4
def test_layers_that_do_not_fit_stay_apart() -> None:
    q, k, v = int4(64, 1), int4(64, 2), int4(64, 3, "Q6_K")
    assert joint.join(module(q_proj=q, k_proj=k, v_proj=v)) == 1
    assert q.part is not None
    assert v.part is None, "of another format"
    odd = [int4(60, 1), int4(64, 2)]
    assert joint.join(module(gate_proj=odd[0], up_proj=odd[1])) == 0
    stock = [torch.nn.Linear(8, 8), torch.nn.Linear(8, 8)]
    assert joint.join(module(gate_proj=stock[0], up_proj=stock[1])) == 0
    assert joint.join(module(fc1=int4(64, 1), fc2=int4(64, 2))) == 0, "layers whose rows are not known to be the same"


@pytest.mark.skipif(not tiled_linear.suits(torch.float32), reason="the processor has no AVX-512")
def test_a_layer_that_becomes_a_stock_one_leaves_the_product() -> None:
    gate, up = exact(64, 1), exact(64, 2)
    joint.join(module(gate_proj=gate, up_proj=up))
    given = rows(3, torch.float32)
    wanted = [gate(given), up(given)]
    half = gate.to(torch.float16)
    assert type(half) is torch.nn.Linear
    assert torch.allclose(half(given.half()).float(), wanted[0], atol=0.05)
    assert up.part is None, "the product is of both or of none"
    assert torch.equal(up(given), wanted[1])


@pytest.mark.skipif(not tiled_linear.suits(torch.float32), reason="the processor has no AVX-512")
def test_gradients_go_through_each_layer() -> None:
    apart, layer = exact(64, 1), exact(64, 1)
    joint.join(module(gate_proj=layer, up_proj=exact(64, 2)))
    gradients = []
    for one in (apart, layer):
        given = rows(3, torch.float32).requires_grad_()
        one(given).square().sum().backward()
        gradients.append(given.grad)
    assert torch.equal(*gradients)
