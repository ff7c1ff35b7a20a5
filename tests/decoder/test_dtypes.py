"""Which number format suits a device."""

from __future__ import annotations

from pathlib import Path

import pytest

from decoder.dtypes import device_here, flags, preferred, resolved, resolved_for_embedding


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("processor\t: 0\nflags\t\t: fpu avx512f avx512_bf16 amx_tile\nbugs\t: none\n", "bfloat16"),
        ("flags\t\t: fpu amx_bf16\n", "bfloat16"),
        ("Features\t: fp asimd bf16 i8mm\n", "bfloat16"),
        ("flags\t\t: fpu avx2 avx512f\n", "float32"),
        ("model name\t: one with avx512_bf16 in its name\nflags\t: fpu\n", "float32"),
        ("", "float32"),
    ],
)
def test_a_processor_gets_bfloat16_where_it_multiplies_it(text: str, expected: str, tmp_path: Path) -> None:
    file = tmp_path / "cpuinfo"
    file.write_text(text)
    assert preferred("cpu", file) == expected


def test_an_unknown_processor_gets_float32(tmp_path: Path) -> None:
    assert preferred("cpu", tmp_path / "none") == "float32"
    assert flags(tmp_path / "none") == frozenset()


def test_a_format_by_its_name_stays() -> None:
    assert resolved("float64", "cpu") == "float64"
    assert resolved("auto", "cpu") == preferred("cpu")


@pytest.mark.parametrize(("text", "expected"), [("avx512_bf16", "float32"), ("avx512_bf16 amx_bf16", "bfloat16")])
def test_embedding_models_get_bfloat16_only_where_it_is_faster(text: str, expected: str, tmp_path: Path) -> None:
    processor = tmp_path / "cpuinfo"
    processor.write_text(f"flags : fpu {text}\n")
    assert resolved_for_embedding("auto", "cpu", processor) == expected
    assert resolved_for_embedding("bfloat16", "cpu", processor) == "bfloat16"


def test_a_device_by_its_name_stays() -> None:
    assert (device_here("cpu"), device_here("cuda:1")) == ("cpu", "cuda:1")
