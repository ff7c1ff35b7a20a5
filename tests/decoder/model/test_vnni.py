"""The machine code of int8 layers gives the reference's bits, and is left out where it cannot run."""

from __future__ import annotations

import ctypes
import sys
from pathlib import Path

import pytest
import torch

from decoder.model.linear.int8 import int8_linear, vnni
from decoder.model.linear.int8.int8_linear import Int8Linear, product_class, quantised
from decoder.model.linear.int8.torch_product import TorchProduct
from decoder.model.linear.int8.vnni import VnniProduct
from decoder.model.linear.rotation import rotated

here = pytest.mark.skipif(not vnni.suits(), reason="the processor has no AVX-512 VNNI, or AMX")


def products(out: int, columns: int, bias: bool, dtype: torch.dtype) -> tuple[VnniProduct, TorchProduct]:
    source = torch.Generator().manual_seed(out + columns)
    integers, scale = quantised(torch.randn(out, columns, generator=source))
    added = torch.randn(out, generator=source).to(dtype) if bias else None
    return VnniProduct(integers, scale, added), TorchProduct(integers, scale, added)


@here
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32, torch.float16])
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize(
    ("out", "columns"), [(1, 16), (61, 32), (64, 48), (300, 512), (130, 704), (512, 1536), (70, 4112)]
)
def test_every_bit_is_the_references(out: int, columns: int, bias: bool, dtype: torch.dtype) -> None:
    """Rows of all magnitudes, with a zero one and one of a single number; more rows than a piece has, and more
    columns than a block."""
    compiled, readable = products(out, columns, bias, dtype)
    source = torch.Generator().manual_seed(out)
    for count in (1, 2, 3, 4, 5, 6, 7, 13, 33, 130):
        rows = (torch.randn(count, columns, generator=source) * torch.logspace(-3, 3, count)[:, None]).to(dtype)
        rows[3:4] = 0
        rows[4:5, 1:] = 0
        found, wanted = torch.empty(2, count, out, dtype=dtype).unbind()
        compiled(rows, found)
        readable(rows, wanted)
        assert torch.equal(found, wanted)


@here
def test_it_is_used_where_it_is_for_the_processor() -> None:
    """Else a fault in the code would go unnoticed: torch's kernels would multiply."""
    assert vnni.available()


@here
def test_the_largest_sums_are_exact() -> None:
    integers = torch.full((64, 9008), 127, dtype=torch.int8)
    integers[1::2] = -127
    rows = rotated(torch.ones(2, 9008))  # whose integers are all as large as can be
    rows[1] *= -1
    found, wanted = torch.empty(2, 2, 64).unbind()
    for product, output in ((VnniProduct, found), (TorchProduct, wanted)):
        product(integers, torch.ones(64), None)(rows, output)
    assert torch.equal(found, wanted)
    assert torch.allclose(found[0, :2], torch.tensor([127.0, -127.0]) * 9008)


@here
def test_rows_that_are_no_block_of_memory_are_read_as_they_are() -> None:
    compiled, readable = products(64, 32, True, torch.bfloat16)
    rows = torch.randn(6, 64, generator=torch.Generator().manual_seed(2)).bfloat16()[::2, ::2]
    wide = torch.zeros(3, 128).bfloat16()
    wanted = torch.empty(3, 64).bfloat16()
    compiled(rows, wide[:, ::2])
    readable(rows, wanted)
    assert torch.equal(wide[:, ::2], wanted)
    assert not wide[:, 1::2].any()


@here
def test_integers_are_kept_once() -> None:
    compiled, readable = products(130, 704, True, torch.bfloat16)
    assert torch.equal(compiled.integers(), readable.integers())
    assert compiled.nbytes == 192 * 704 + 3 * 4 * 192, "outputs are filled up to a multiple of 64"


@here
def test_a_layer_takes_it_where_its_columns_fit() -> None:
    assert product_class(64) is VnniProduct
    assert product_class(24) is TorchProduct
    assert int8_linear.kernel_name() == "VnniProduct"
    made = Int8Linear(torch.randn(8, 64, generator=torch.Generator().manual_seed(1)), None, torch.bfloat16)
    assert isinstance(made.product, VnniProduct)
    assert made(torch.empty(0, 64).bfloat16()).shape == (0, 8)


@pytest.mark.parametrize("flags", ["avx2", "avx512f avx512bw avx512vl", " ".join([*sorted(vnni.FLAGS), "amx_int8"])])
def test_other_processors_go_without(flags: str, tmp_path: Path) -> None:
    (tmp_path / "cpuinfo").write_text(f"flags : fpu {flags}\n")
    assert not vnni.available.__wrapped__(tmp_path / "cpuinfo")
    assert not vnni.available.__wrapped__(tmp_path / "missing")


@here
@pytest.mark.parametrize("missing", ["llvmlite", "openmp", "right"])
def test_where_something_is_missing_torchs_kernels_multiply(missing: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if missing == "llvmlite":
        for name in ("llvmlite", "llvmlite.binding"):
            monkeypatch.setitem(sys.modules, name, None)
        for name in ("int8.vnni_code", "machine_code"):
            monkeypatch.delitem(sys.modules, f"decoder.model.linear.{name}", raising=False)
    elif missing == "openmp":
        monkeypatch.setattr(ctypes, "CDLL", lambda name: object())
    monkeypatch.setattr(vnni, "functions", vnni.functions.__wrapped__)
    if missing == "right":
        monkeypatch.setattr(torch, "equal", lambda *tensors: False)
    assert not vnni.available.__wrapped__()
