"""How number formats are timed: the least of the rounds, and how much the rounds differ."""

from __future__ import annotations

import pytest

from decoder.bench import format_times
from decoder.bench.format_times import FORMATS, ROWS, FormatTimes
from tests.support.models.file_bytes import needs_int4


def test_the_least_of_the_rounds_counts_and_a_disturbed_one_shows(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = 0

    def seconds(layers: list[str], rows: int) -> float:
        nonlocal asked
        number, asked = asked // (len(ROWS) * len(FORMATS)), asked + 1
        factor = {0: 100.0, 3: 2.0}.get(number, 1.0)  # the warm-up, and one that something else disturbed
        return factor * rows * (0.5 if layers == ["bfloat16"] else 1.0)

    monkeypatch.setattr(format_times, "_layers", lambda dtype: [dtype])
    monkeypatch.setattr(format_times, "_seconds", seconds)
    measured = format_times.measure()
    assert measured.times["float32"] == {1: 1.0, 8: 8.0, 64: 64.0}
    assert measured.spread == 2.0
    assert measured.fastest == "bfloat16"


@needs_int4
def test_int4_is_timed_where_a_model_can_run_in_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(format_times, "_SIZE", 256)
    monkeypatch.setattr(format_times, "free_bytes", lambda: 10**10)
    for blocks, formats in ((True, [*FORMATS, "int4"]), (False, [*FORMATS])):
        measured = format_times.time_formats(blocks)
        assert measured is not None
        assert list(measured.times) == formats


def test_the_fastest_has_the_least_geometric_mean() -> None:
    times = {"float32": {1: 1.0, 64: 64.0}, "int8": {1: 0.5, 64: 96.0}}
    assert FormatTimes(times, 1.0).fastest == "int8"
    assert FormatTimes(times, 1.0).gain("int8") == 1.0
    assert FormatTimes(times, 1.0).gain("float32") == pytest.approx(8 / 48**0.5)
