"""The border between an int8 model's kernels comes from their times."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from decoder.model.linear.int8_linear import quantise
from decoder.model.target import TargetModel
from decoder.planning import kernel_border
from decoder.planning.calibration import fingerprint
from decoder.planning.kernel_border import border_of, load_or_measure, measure
from tests.support.tiny_models import tiny_model, tiny_target

ROWS = (4, 8, 16, 32)


def int8_target() -> TargetModel:
    model = tiny_model()
    quantise(model)
    return TargetModel(model)


def test_the_border_lies_where_the_times_cross() -> None:
    asked: list[int] = []

    def few(rows: int) -> float:
        asked.append(rows)
        return 1.0 * rows

    assert border_of(few, lambda rows: 10.0 + 0.5 * rows, ROWS) == 20
    assert asked == [4, 8, 16, 32], "no row count is timed after the one at which the wider kernel wins"
    assert border_of(few, lambda rows: 6.0 + 0.2 * rows, ROWS) == 7


def test_a_kernel_that_never_wins_is_not_used() -> None:
    assert border_of(lambda rows: 2.0 * rows, lambda rows: 1.0 * rows, ROWS) == 0
    assert border_of(lambda rows: 1.0 * rows, lambda rows: 2.0 * rows, ROWS) == 32


def test_a_target_uses_the_border_that_was_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    target = int8_target()
    kernels = target.kernels
    assert kernels is not None
    ticks = iter(range(10**6))

    def clock() -> float:
        """Each pass takes longer than the one before. The wider kernel is timed second, but first of all at 64 rows."""
        return float(next(ticks) ** 2)

    monkeypatch.setattr(kernel_border.time, "perf_counter", clock)
    assert measure(target) is kernels
    assert 32 < kernels.border < 64
    assert kernels.wide is torch.float32, "it was timed before the other format"


def test_what_was_measured_is_kept_in_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "state" / "kernels.json"
    measured = load_or_measure(int8_target(), file)
    again = int8_target()
    with monkeypatch.context() as patch:
        patch.setattr(kernel_border, "measure", None)
        load_or_measure(again, file)
    assert again.kernels is not None
    assert (again.kernels.border, again.kernels.wide) == (measured.border, measured.wide)
    file.write_text("{}")
    load_or_measure(int8_target(), file)
    assert "border" in file.read_text(), "a damaged file is measured anew"


def test_costs_measured_with_another_border_are_not_reused() -> None:
    target = int8_target()
    assert target.kernels is not None
    target.kernels.border = 4
    before = fingerprint(target, "tiny")
    target.kernels.border = 5
    assert fingerprint(target, "tiny") != before


def test_other_formats_have_no_kernels_to_measure() -> None:
    with pytest.raises(ValueError, match="float64"):
        measure(tiny_target())
