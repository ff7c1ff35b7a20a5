"""Rows of activations as integers, in the readable form and in machine code."""

from __future__ import annotations

import ctypes
import sys
from pathlib import Path

import pytest
import torch

from decoder.model.linear import rotation, rounding
from decoder.model.linear.rounding import LARGEST, SMALLEST, ZERO

here = pytest.mark.skipif(not rounding.suits(), reason="the processor has no AVX2")


def rows_of_all_magnitudes(count: int, columns: int) -> torch.Tensor:
    source = torch.Generator().manual_seed(columns)
    rows = torch.randn(count, columns, generator=source) * torch.logspace(-20, 20, count)[:, None]
    rows[3:4] = 0
    rows[4:5, 1:] = 0
    rows[5:6] = rows[5:6, :1]
    return rows


@pytest.mark.parametrize("form", [rounding.rounded, rounding.readable])
@pytest.mark.parametrize("columns", [7, 24, 48, 576, 1536])
def test_integers_hold_a_rotated_row_up_to_half_a_step(form: object, columns: int) -> None:
    rows = rows_of_all_magnitudes(50, columns)
    integers, steps = form(rows)  # type: ignore[operator]
    assert (integers.dtype, steps.dtype, steps.shape) == (torch.uint8, torch.float32, (50,))
    numbers = integers.double() - ZERO
    assert numbers.abs().amax() == LARGEST
    held, turned = numbers * steps.double()[:, None], rotation.rotated(rows).double()
    assert ((held - turned).abs() <= 0.5001 * steps.double()[:, None]).all()
    assert not numbers[3].any()
    assert steps[3] == torch.tensor(SMALLEST) / LARGEST
    assert (numbers[torch.arange(50) != 3].abs().amax(1) == LARGEST).all(), "the largest number of a row is whole"


@here
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32, torch.float16, torch.float64])
@pytest.mark.parametrize("columns", [16, 48, 64, 576, 512, 1536, 8960])
def test_the_code_gives_the_references_bits(columns: int, dtype: torch.dtype) -> None:
    for count in (1, 2, 7, 33):
        rows = (rows_of_all_magnitudes(count, columns) * 1e-3).to(dtype).nan_to_num()
        for found, wanted in zip(rounding.rounded(rows), rounding.readable(rows), strict=True):
            assert torch.equal(found, wanted)
        assert torch.equal(rounding.rotated(rows), rotation.rotated(rows))


@here
def test_it_is_used_where_it_is_for_the_processor() -> None:
    """Else a fault in the code would go unnoticed: torch would round, slowly."""
    assert rounding.available()


@here
def test_it_needs_no_more_than_avx2(monkeypatch: pytest.MonkeyPatch) -> None:
    """LLVM divides registers that a processor lacks: the code for one of 2013 gives the same bits here."""
    import llvmlite.binding as llvm

    class Features(dict[str, bool]):
        def flatten(self) -> str:
            return "+avx2,+fma,+f16c,+bmi2"

    monkeypatch.setattr(llvm, "get_host_cpu_name", lambda: "haswell")
    monkeypatch.setattr(llvm, "get_host_cpu_features", lambda: Features(avx2=True))
    code = rounding.code.__wrapped__()
    monkeypatch.setattr(rounding, "code", lambda: code)
    for columns in (16, 64, 1536):
        rows = rows_of_all_magnitudes(9, columns).bfloat16()
        for found, wanted in zip(rounding.rounded(rows), rounding.readable(rows), strict=True):
            assert torch.equal(found, wanted)


@pytest.mark.parametrize("form", [rounding.rounded, rounding.readable])
def test_what_is_no_number_leaves_no_finite_step(form: object) -> None:
    rows = torch.ones(3, 64)
    rows[0, 5], rows[1, 6] = float("nan"), float("inf")
    _, steps = form(rows)  # type: ignore[operator]
    assert steps.isfinite().tolist() == [False, False, True]


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
def test_rows_that_are_no_block_of_memory_are_read_as_they_are(dtype: torch.dtype) -> None:
    wide = rows_of_all_magnitudes(6, 128).to(dtype)
    for found, wanted in zip(rounding.rounded(wide[::2, ::2]), rounding.readable(wide[::2, ::2]), strict=True):
        assert torch.equal(found, wanted)
    for form in (rounding.rounded, rounding.readable):
        assert form(wide[:0])[0].shape == (0, 128)


@here
@pytest.mark.parametrize("missing", ["llvmlite", "openmp", "right", "avx2"])
def test_where_something_is_missing_torch_rounds(missing: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "cpuinfo").write_text("flags : fpu sse4_2\n")
    if missing == "llvmlite":
        for name in ("llvmlite", "llvmlite.binding"):
            monkeypatch.setitem(sys.modules, name, None)
        for name in ("rounding_code", "machine_code"):
            monkeypatch.delitem(sys.modules, f"decoder.model.linear.{name}", raising=False)
    elif missing == "openmp":
        monkeypatch.setattr(ctypes, "CDLL", lambda name: object())
    elif missing == "right":
        monkeypatch.setattr(torch, "equal", lambda *tensors: False)
    monkeypatch.setattr(rounding, "code", rounding.code.__wrapped__)
    processor = tmp_path / "cpuinfo" if missing == "avx2" else Path("/proc/cpuinfo")
    assert not rounding.available.__wrapped__(processor)
