"""The budget choice against brute force, and the cost curve it goes by."""

from __future__ import annotations

import itertools
import json
import math
import random
from collections import Counter
from pathlib import Path
from types import SimpleNamespace

import pytest

from decoder.drafts.tree import DraftTree, TokenSource
from decoder.planning import calibration
from decoder.planning.budget import choose
from decoder.planning.calibration import load_or_measure, measure
from decoder.planning.cost_curve import ROWS, AssumedCurve, CostCurve, bucket_of
from tests.support.tiny_models import tiny_target


def valued(values: list[float]) -> DraftTree:
    tree = DraftTree.chain(range(len(values)), [TokenSource("test")] * len(values))
    tree.values = values
    return tree


def rate(trees: list[DraftTree], kept: tuple[int, ...], costs: list[float]) -> float:
    expected = len(trees) + sum(sum(tree.values[:n]) for tree, n in zip(trees, kept, strict=True))
    return expected / costs[sum(kept)]


def test_choose_finds_the_best_rate_of_all() -> None:
    source = random.Random(4)
    for _ in range(300):
        trees = [
            valued(sorted((source.random() for _ in range(source.randint(0, 4))), reverse=True))
            for _ in range(source.randint(1, 3))
        ]
        costs = list(itertools.accumulate([1.0, *(source.random() * 0.6 for _ in range(12))]))
        best = max(rate(trees, kept, costs) for kept in itertools.product(*(range(len(tree) + 1) for tree in trees)))
        assert rate(trees, tuple(choose(trees, costs)), costs) == pytest.approx(best)


def test_trees_without_values_are_kept_whole_and_paid_for() -> None:
    fixed = DraftTree.chain([1, 2, 3], [TokenSource("pld")] * 3)
    assert choose([fixed, valued([0.9, 0.1])], [1, 1.1, 1.2, 1.3, 1.4, 3.0]) == [3, 1]


def test_nothing_is_drafted_where_rows_cost_as_much_as_passes() -> None:
    assert choose([valued([0.9, 0.8])], [1.0, 2.0, 3.0]) == [0]


@pytest.mark.parametrize(
    ("seconds", "sequences", "pay"),
    [
        ({1: 1.0, 64: 1.5}, 1, True),
        ({1: 1.0, 64: 1.5}, 64, True),  # after the last point the line goes on
        ({1: 1.0, 64: 64.0}, 1, False),
        ({1: 1.0, 2: 1.9, 64: 8.0}, 1, True),  # one node gains little, many do
        ({1: 1.0, 16: 2.0, 768: 96.0}, 4, True),
        ({1: 1.0, 16: 2.0, 768: 96.0}, 64, False),
    ],
)
def test_drafts_pay_where_rows_are_cheaper_than_passes(seconds: dict[int, float], sequences: int, pay: bool) -> None:
    curve = CostCurve()
    curve.set(bucket_of(0, sequences), seconds)
    assert curve.drafts_pay(0, sequences) is pay
    curve.set(bucket_of(0, sequences), {1: 1.0, 64: 1.0})
    assert curve.drafts_pay(0, sequences), "another curve"


def test_least_value_never_cuts_what_choose_would_keep() -> None:
    source = random.Random(5)
    for _ in range(200):
        curve = CostCurve()
        curve.set((0, 0), {rows: 1.0 + source.random() * rows for rows in (1, 4, 16, 64)})
        costs = curve.costs(0, 1, 63)
        tree = valued(sorted((source.random() ** 3 for _ in range(63)), reverse=True))
        least = curve.least_value(0, 1, 63)
        kept = choose([tree], costs)[0]
        assert all(value >= least - 1e-12 for value in tree.values[:kept])


def test_measured_seconds_are_met_and_lines_drawn_between_them() -> None:
    curve = CostCurve()
    curve.set((0, 0), {1: 1.0, 8: 1.0, 64: 8.0})
    costs = curve.costs(0, 1, 127)
    assert costs[0] == costs[7] == 1.0
    assert costs[63] == pytest.approx(8.0)
    assert costs[35] == pytest.approx(4.5)
    assert costs[127] > costs[63]
    assert costs == sorted(costs)


def test_a_bucket_without_measurements_takes_the_nearest() -> None:
    curve = CostCurve()
    curve.set(bucket_of(512, 1), {1: 1.0, 64: 2.0})
    curve.set(bucket_of(40_000, 1), {1: 3.0, 64: 9.0})
    assert curve.costs(20_000, 1, 0) == [3.0]
    assert curve.costs(700, 3, 0)[0] == pytest.approx(1.0 + 2 / 63, rel=0.05)


def test_observations_move_the_shape_and_the_pace_does_not() -> None:
    curve = CostCurve()
    curve.set((0, 0), {1: 1.0, 64: 2.0})
    for _ in range(400):  # everything twice as slow: the shape stays
        curve.observe(1, 0, 1, 2.0)
        curve.observe(64, 0, 1, 4.0)
    costs = curve.costs(0, 1, 63)
    assert costs[63] / costs[0] == pytest.approx(2.0, rel=0.1)
    for _ in range(400):  # wide passes turn out to cost more
        curve.observe(1, 0, 1, 2.0)
        curve.observe(64, 0, 1, 8.0)
    costs = curve.costs(0, 1, 63)
    assert costs[63] / costs[0] > 3.0


def test_seconds_of_a_slow_moment_are_told_in_the_curves_own() -> None:
    """What is held against the curve must be told by its clock, or drafting looks dear whenever the machine is slow."""
    curve = CostCurve()
    curve.set((0, 0), {1: 1.0, 64: 2.0})
    for _ in range(200):
        curve.observe(1, 0, 1, 2.0)
        curve.observe(64, 0, 1, 4.0)
    assert curve.normalised(2.0) == pytest.approx(curve.costs(0, 1, 0)[0], rel=0.02)


def test_an_assumed_curve_takes_no_time_of_this_machine() -> None:
    curve = AssumedCurve(2.0, 1.5)
    curve.observe(64, 0, 1, 100.0)
    assert curve.costs(0, 1, 63)[::63] == pytest.approx([2.0, 3.0])
    assert curve.normalised(7.0) == 0.0


def test_a_size_that_is_faster_than_a_smaller_one_does_not_drag_the_curve_away() -> None:
    """Kernels are chosen by size, so two rows can be faster than one. Costs never fall with rows, and what lay below
    that line once sank further with every pass, while the point above it rose, until wide passes seemed free."""
    seconds = {1: 1.0, 2: 0.9, 4: 0.95, 16: 1.1, 64: 1.6}
    curve = CostCurve()
    curve.set((0, 0), seconds)
    for _ in range(1000):
        for rows in (1, 1, 2, 2, 4, 16):
            curve.observe(rows, 0, 1, seconds[rows])
    costs = curve.costs(0, 1, 63)
    assert costs[63] / costs[0] == pytest.approx(1.6, rel=0.05)
    assert costs[15] / costs[0] == pytest.approx(1.1, rel=0.05)


def test_batches_that_come_and_go_leave_the_shape_alone() -> None:
    """Passes of eight sequences read eight caches. That all of them take longer was put down to whatever rows came
    first after each change, so that drafts seemed twice as dear as they were once answers were alone again."""
    curve = CostCurve()
    curve.set(bucket_of(512, 1), {1: 1.0, 64: 1.6})
    line = curve.costs(512, 1, 63)
    for _ in range(60):
        for sequences, slower in ((1, 1.0), (8, 1.8)):
            for number in range(50):
                nodes = 24 if number % 4 == 0 else 0
                curve.observe(sequences + nodes, 512 * sequences, sequences, slower * line[sequences + nodes - 1])
    alone, shared = curve.costs(512, 1, 31), curve.costs(4096, 8, 31)
    assert alone[31] / alone[0] == pytest.approx(line[31] / line[0], rel=0.05)
    assert shared[31] / shared[0] == pytest.approx(line[38] / line[7], rel=0.05)


def test_an_outlier_is_not_believed_and_a_lasting_change_is() -> None:
    curve = CostCurve()
    curve.set((0, 0), {1: 1.0, 64: 2.0})
    before = curve.costs(0, 1, 63)[63]
    curve.observe(64, 0, 1, 500.0)
    assert curve.costs(0, 1, 63)[63] == before
    for _ in range(30):
        curve.observe(64, 0, 1, 500.0)
    assert curve.costs(0, 1, 63)[63] != before


def test_a_curve_is_kept_and_a_broken_file_measured_anew(tmp_path: Path) -> None:
    target = tiny_target()
    path = tmp_path / "cost.json"
    curve = load_or_measure(target, path)
    assert CostCurve.load(path).costs(400, 1, 64) == pytest.approx(curve.costs(400, 1, 64), rel=1e-3, abs=1e-6)
    path.write_text('{"rows": [1], "seconds": {}}')
    with pytest.raises(ValueError, match="delete it"):
        CostCurve.load(path)
    path.write_text(json.dumps({"rows": ROWS, "seconds": {"0,0": [math.inf] * len(ROWS)}}))
    with pytest.raises(ValueError, match="delete it"):
        CostCurve.load(path)
    load_or_measure(target, path)
    assert CostCurve.load(path).costs(400, 1, 64)


def test_slow_moments_are_not_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: Counter[int] = Counter()

    def pass_beside_other_work(target: object, cached: int, rows: int) -> float:
        calls[rows] += 1
        return rows * (1.0 if calls[rows] == 3 else 5.0 + rows)

    monkeypatch.setattr(calibration, "_time", pass_beside_other_work)
    curve = measure(tiny_target(), rows=(1, 4), cached=(16,), seconds=math.inf)
    assert curve.costs(16, 1, 3) == pytest.approx([1.0, 2.0, 3.0, 4.0])


@pytest.mark.parametrize(("a_pass", "passes"), [(1.0, 14), (4.0, 4), (100.0, 2)])
def test_measuring_ends_in_time_however_slow_the_machine(
    monkeypatch: pytest.MonkeyPatch, a_pass: float, passes: int
) -> None:
    """On a busy machine, measuring every size twice took minutes, and until then nothing could be asked."""
    ran: list[tuple[int, int]] = []

    def slow_pass(target: object, cached: int, rows: int) -> float:
        ran.append((cached, rows))
        return 1.0 + rows / 64

    clock = SimpleNamespace(perf_counter=lambda: a_pass * len(ran))
    monkeypatch.setattr(calibration, "_time", slow_pass)
    monkeypatch.setattr(calibration, "time", clock)
    curve = measure(tiny_target(), rows=(1, 4, 16, 64), cached=(16, 32), seconds=14.0)
    assert len(ran) == passes
    assert ran[:2] == [(16, 64), (16, 1)]
    for cached in (16, 32):
        assert curve.costs(cached, 1, 63) == pytest.approx([1.0 + rows / 64 for rows in range(1, 65)])


def test_measuring_leaves_every_point_positive() -> None:
    curve = measure(tiny_target(), rows=(1, 4), cached=(16,), seconds=0.0)
    assert all(cost > 0 for cost in curve.costs(16, 1, ROWS[-1]))
