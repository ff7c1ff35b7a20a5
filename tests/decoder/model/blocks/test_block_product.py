"""The machine code of layers of blocks gives the reference's bits, whatever rows, threads or instructions."""

from __future__ import annotations

import ctypes
import functools
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import torch

from decoder import dtypes
from decoder.model.linear.blocks import block_product, block_rows
from decoder.model.linear.blocks.block_linear import BlockLinear
from decoder.model.linear.blocks.block_matrix import BlockMatrix
from decoder.model.linear.blocks.block_product import BlockProduct, reference, rounded
from decoder.model.linear.blocks.file_blocks import GROUP, read
from decoder.weights.gguf_blocks import BlockFormat
from tests.support.models.file_bytes import file_bytes, needs_int4, random_bytes

if TYPE_CHECKING:
    from decoder.model.linear.run import Run

KINDS: list[BlockFormat] = ["Q4_K", "Q6_K"]


def rows_of_all_magnitudes(count: int, columns: int) -> torch.Tensor:
    """float32, with a row of zeros, one with a block of zeros, and one of a single number."""
    source = torch.Generator().manual_seed(count)
    rows = torch.randn(count, columns, generator=source) * torch.logspace(-4, 4, count)[:, None]
    rows[3:4] = 0
    rows[4:5, :256] = 0
    rows[5:6, 1:] = 0
    return rows


@needs_int4
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32, torch.float16])
@pytest.mark.parametrize(("out", "blocks", "bias"), [(1, 1, True), (64, 2, False), (150, 3, True), (64, 27, True)])
@pytest.mark.parametrize("kind", KINDS)
def test_every_bit_is_the_references(kind: BlockFormat, out: int, blocks: int, bias: bool, dtype: torch.dtype) -> None:
    data = random_bytes(out, blocks, kind)
    added = torch.randn(out, generator=torch.Generator().manual_seed(2)).to(dtype) if bias else None
    product = BlockProduct(BlockMatrix.from_file(data, kind), added)
    for count in (1, 2, 3, 4, 5, 6, 7, 13, 130):
        rows = rows_of_all_magnitudes(count, 256 * blocks).to(dtype)
        found = torch.empty(count, out, dtype=dtype)
        product(rows, found)
        assert torch.equal(found, reference(read(data, kind), rows, added).to(dtype))


@needs_int4
@pytest.mark.parametrize("kind", KINDS)
def test_a_rows_bits_do_not_depend_on_other_rows_or_threads(kind: BlockFormat) -> None:
    product = BlockProduct(BlockMatrix.from_file(random_bytes(640, 4, kind), kind), None)
    rows = rows_of_all_magnitudes(70, 1024).bfloat16()
    together = torch.empty(70, 640).bfloat16()
    product(rows, together)
    for place in (0, 5, 33, 69):
        alone = torch.empty(1, 640).bfloat16()
        product(rows[place : place + 1], alone)
        assert torch.equal(alone[0], together[place])
    threads, one_thread = torch.get_num_threads(), torch.empty(70, 640).bfloat16()
    torch.set_num_threads(1)
    try:
        product(rows, one_thread)
    finally:
        torch.set_num_threads(threads)
    assert torch.equal(one_thread, together)


@functools.cache
def older_code(bits: int) -> dict[str, Run]:
    from decoder.model.linear.blocks.block_code import program

    return program(bits, vnni=False).compiled("avx2")


@needs_int4
@pytest.mark.parametrize("kind", KINDS)
def test_instructions_of_older_processors_give_the_same_bits(
    kind: BlockFormat, monkeypatch: pytest.MonkeyPatch
) -> None:
    product = BlockProduct(BlockMatrix.from_file(random_bytes(130, 2, kind), kind), None)
    rows = rows_of_all_magnitudes(9, 512)
    found, wanted = torch.empty(2, 9, 130).unbind()
    product(rows, wanted)
    monkeypatch.setattr(block_product, "code", older_code)
    product(rows, found)
    assert torch.equal(found, wanted)


@needs_int4
@pytest.mark.parametrize("kind", KINDS)
def test_the_largest_sums_are_exact(kind: BlockFormat) -> None:
    """Every integer, scale and row at its end: sums of a block fit 32 bits."""
    data = random_bytes(64, 1, kind)
    floats = slice(0, 4) if kind == "Q4_K" else slice(208, 210)
    kept = data[:, floats].clone()
    data[:] = 255
    if kind == "Q6_K":
        data[:32, 192:208] = 128  # scales of -128
        data[32:, 192:208] = 127
    data[:, floats] = kept
    rows = torch.ones(2, 256)
    rows[1] *= -1
    found = torch.empty(2, 64)
    BlockProduct(BlockMatrix.from_file(data, kind), None)(rows, found)
    assert torch.equal(found, reference(read(data, kind), rows, None))


@needs_int4
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
@pytest.mark.parametrize("group", sorted(GROUP.values()))
def test_rows_are_rounded_as_the_readable_form_does(group: int, dtype: torch.dtype) -> None:
    for count in (1, 3, 50):
        rows = rows_of_all_magnitudes(count, 768).to(dtype)
        assert all(map(torch.equal, rounded(rows, group), block_rows.readable(rows, group)))


def test_an_integer_times_its_step_is_the_rows_number_up_to_half_a_step() -> None:
    rows = rows_of_all_magnitudes(20, 512)
    integers, sums, steps = block_rows.readable(rows, 32)
    steps = steps.repeat_interleave(64, dim=1)
    assert ((integers * steps - rows).abs() <= steps * 0.5001).all()
    assert integers.abs().amax(1).ne(127).sum() == 1, "a row of zeros alone does not use all of the range"
    assert torch.equal(sums.int(), integers.view(20, -1, 32).int().sum(2))


@needs_int4
@pytest.mark.parametrize("kind", KINDS)
def test_products_are_near_those_of_the_weights(kind: BlockFormat) -> None:
    source = torch.Generator().manual_seed(1)
    weight, rows = torch.randn(96, 512, generator=source), torch.randn(40, 512, generator=source)
    layer = BlockLinear(BlockMatrix.from_file(file_bytes(weight, kind), kind), None, torch.float32)
    exact = rows @ layer.weight.T
    assert ((layer(rows) - exact).norm() / exact.norm()) < 0.01


@needs_int4
@pytest.mark.parametrize("kind", KINDS)
def test_a_layer_of_some_outputs_gives_their_bits(kind: BlockFormat) -> None:
    bias = torch.randn(150, generator=torch.Generator().manual_seed(3))
    layer = BlockLinear(BlockMatrix.from_file(random_bytes(150, 1, kind), kind), bias, torch.bfloat16)
    numbers = torch.tensor([149, 3, 3, 70])
    rows = rows_of_all_magnitudes(7, 256).bfloat16()
    assert torch.equal(layer.rows(numbers)(rows), layer(rows)[:, numbers])
    assert torch.equal(layer.weight_rows(numbers), layer.weight[numbers])
    assert layer(torch.empty(0, 256).bfloat16()).shape == (0, 150)
    assert layer(rows.view(7, 1, 256)).shape == (7, 1, 150)


def test_without_llvmlite_the_message_names_the_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "cpuinfo").write_text("flags : avx2 fma f16c\n")
    monkeypatch.setattr(dtypes, "find_spec", lambda name: None)
    assert "pip install -e '.[native]'" in (dtypes.problem("int4", "cpu", tmp_path / "cpuinfo") or "")


@needs_int4
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("wrong", [float("nan"), float("inf")])
def test_a_row_with_what_is_no_number_spoils_no_other(kind: BlockFormat, wrong: float) -> None:
    product = BlockProduct(BlockMatrix.from_file(random_bytes(64, 2, kind), kind), None)
    rows = rows_of_all_magnitudes(3, 512).bfloat16()
    right, spoilt = torch.empty(2, 3, 64).bfloat16().unbind()
    product(rows, right)
    rows[1, 70] = wrong
    product(rows, spoilt)
    assert torch.equal(spoilt[[0, 2]], right[[0, 2]])
    assert not spoilt[1].isfinite().any()


@needs_int4
def test_it_is_there_where_it_is_for_the_processor() -> None:
    assert block_product.available()


@pytest.mark.parametrize("flags", ["sse4_2", "avx2", ""])
def test_other_processors_are_told_what_to_choose(flags: str, tmp_path: Path) -> None:
    file = tmp_path / "cpuinfo"
    file.write_text(f"flags : fpu {flags}\n")
    assert dtypes.problem("int4", "cpu", file) == (
        "the number format int4 needs an x86 processor with AVX2; choose int8, bfloat16 or float32"
    )
    file.write_text("flags : fpu avx2 fma f16c\n")
    assert dtypes.problem("int4", "cpu", file) is None
    assert block_product.kernel_name(file) == "avx2"
    assert "the device is cuda; choose bfloat16" in (dtypes.problem("int4", "cuda", file) or "")


@needs_int4
@pytest.mark.parametrize("missing", ["llvmlite", "openmp", "right"])
def test_where_something_is_missing_it_is_not_available(missing: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if missing == "llvmlite":
        for name in ("llvmlite", "llvmlite.binding"):
            monkeypatch.setitem(sys.modules, name, None)
        for name in ("blocks.block_code", "machine_code"):
            monkeypatch.delitem(sys.modules, f"decoder.model.linear.{name}", raising=False)
    elif missing == "openmp":
        monkeypatch.setattr(ctypes, "CDLL", lambda name: object())
    monkeypatch.setattr(block_product, "code", block_product.code.__wrapped__)
    if missing == "right":
        monkeypatch.setattr(torch, "equal", lambda *tensors: False)
    assert not block_product.available.__wrapped__()
