"""Kernels for integers: each is exact, at the largest numbers too, and its matrix can be read back."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from decoder.model.linear.int8 import integer_product
from decoder.model.linear.int8.integer_product import Converted, Fbgemm, OneDnn, adds_in_32_bits, kernel, pack
from decoder.model.linear.rounding import LARGEST, ZERO

KERNELS = [
    pytest.param(one, marks=pytest.mark.skipif(not integer_product._multiplies(one), reason="not on this processor"))
    for one in (Fbgemm, OneDnn, Converted)
]


@pytest.mark.parametrize("in_digits", [False, True])
@pytest.mark.parametrize("one", KERNELS)
@pytest.mark.parametrize(("out", "columns"), [(61, 32), (1, 64), (8, 24), (5, 7), (300, 513), (3, 9000)])
def test_sums_are_exact(
    one: type[Fbgemm], out: int, columns: int, in_digits: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In both ways on a processor that adds in 32 bits; the second is the only one elsewhere."""
    if in_digits:
        monkeypatch.setattr(integer_product, "adds_in_32_bits", lambda: False)
    source = torch.Generator().manual_seed(out)
    integers = torch.randint(-127, 128, (out, columns), dtype=torch.int8, generator=source)
    integers[0] = 127
    rows = torch.randint(-LARGEST, LARGEST + 1, (9, columns), generator=source)
    rows[0], rows[1] = LARGEST, -LARGEST
    exact = (rows.double() @ integers.double().T).float()
    unsigned = (rows + ZERO).to(torch.uint8)
    product = one(integers)
    assert torch.equal(product(unsigned), exact)
    assert torch.equal(product(unsigned[:1]), exact[:1])
    assert torch.equal(product.integers(), integers)
    assert product.nbytes == integers.numel()


def test_a_large_matrix_is_converted_a_piece_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    integers = torch.randint(-127, 128, (50, 32), dtype=torch.int8, generator=torch.Generator().manual_seed(1))
    rows = torch.randint(1, 256, (3, 32), dtype=torch.uint8, generator=torch.Generator().manual_seed(2))
    whole = Converted(integers)(rows)
    monkeypatch.setattr(integer_product, "PIECE", 7 * 32)
    assert torch.equal(Converted(integers)(rows), whole)


@pytest.mark.parametrize(
    ("machine", "flags", "there", "chosen"),
    [
        ("x86_64", "avx2 avx512_vnni", {Fbgemm, OneDnn}, Fbgemm),
        ("AMD64", "avx2", {Fbgemm, OneDnn}, Fbgemm),
        ("x86_64", "avx512_vnni amx_int8", {Fbgemm, OneDnn}, OneDnn),
        ("x86_64", "amx_int8", {Fbgemm}, Fbgemm),
        ("x86_64", "avx2", {OneDnn}, OneDnn),
        ("x86_64", "avx2", set(), Converted),
        ("aarch64", "asimddp", {Fbgemm, OneDnn}, Converted),
    ],
)
def test_the_processor_chooses_the_kernel(
    machine: str, flags: str, there: set[type], chosen: type, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "cpuinfo").write_text(f"flags : fpu {flags}\n")
    monkeypatch.setattr(integer_product.platform, "machine", lambda: machine)
    monkeypatch.setattr(integer_product, "_multiplies", lambda one: one in there)
    assert kernel.__wrapped__(tmp_path / "cpuinfo") is chosen


def test_a_kernel_that_saturates_or_is_missing_is_not_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    class Saturating(Converted):
        def __call__(self, integers: torch.Tensor) -> torch.Tensor:
            return super().__call__(integers).clamp_max(32767)

    class Missing(Converted):
        def __init__(self, integers: torch.Tensor) -> None:
            raise RuntimeError("unknown operator")

    assert not integer_product._multiplies(Saturating)
    assert not integer_product._multiplies(Missing)
    assert integer_product._multiplies(Converted)


@pytest.mark.parametrize(
    ("flags", "wide"), [("avx2", False), ("avx512f avx512bw", False), ("avx2 avx_vnni", False), ("avx512_vnni", True)]
)
def test_rows_are_multiplied_in_digits_where_sums_are_held_at_16_bits(flags: str, wide: bool, tmp_path: Path) -> None:
    (tmp_path / "cpuinfo").write_text(f"flags : fpu {flags}\n")
    assert adds_in_32_bits.__wrapped__(tmp_path / "cpuinfo") is wide


def test_digits_of_a_row_are_small_and_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(integer_product, "adds_in_32_bits", lambda: False)
    numbers = torch.arange(-LARGEST, LARGEST + 1)

    def product(digits: torch.Tensor, zero: int) -> torch.Tensor:
        assert digits.max() <= 16
        return digits.float() - zero

    held = integer_product._wide_or_in_digits(product, (numbers[None] + ZERO).to(torch.uint8))
    assert torch.equal(held, numbers[None].float())


def test_packing_leaves_torchs_engine_alone_and_says_nothing(recwarn: pytest.WarningsRecorder) -> None:
    before = torch.backends.quantized.engine
    pack(torch.ones(4, 8, dtype=torch.int8))
    assert torch.backends.quantized.engine == before
    assert not recwarn.list
