"""Calibrator: what likeness and the last logits do to a table's estimate, and that it is learned."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from decoder.drafters.learning.acceptance import AcceptanceTable
from decoder.drafters.learning.calibrator import Calibrator


def taught(shows: str, at: int = 0) -> Calibrator:
    """One that saw 4,000 tokens, of which those with a high sign were right 8 times in 10, the others 1 in 10."""
    source = random.Random(1)
    calibrator = Calibrator()
    for _ in range(40):
        calibrator.learn(0.5, 0, source.choice((0.4, 0.8)), None, None, True)  # what similarities are like
    for _ in range(4000):
        high = source.random() < 0.5
        hit = source.random() < (0.8 if high else 0.1)
        similarity = (0.8 if high else 0.4) if shows == "similarity" else None
        logit_margin = (-6.0 if high else -20.0) if shows == "gap" else None
        calibrator.learn(0.45, at, similarity, logit_margin, None, hit)
    return calibrator


def test_without_signs_the_estimate_is_the_chance() -> None:
    calibrator = taught("similarity")
    assert calibrator.chance(0.37, 0, None, None) == 0.37
    assert calibrator.chance(0.37, 20, 0.8, -3.0) == 0.37  # far down the table alone tells


def test_a_new_one_believes_the_estimate() -> None:
    assert Calibrator().chance(0.37, 0, 0.9, -2.0) == pytest.approx(0.37)


@pytest.mark.parametrize("at", [0, 3])
def test_likeness_is_learned(at: int) -> None:
    calibrator = taught("similarity", at)
    assert calibrator.chance(0.45, at, 0.8, None) == pytest.approx(0.8, abs=0.1)
    assert calibrator.chance(0.45, at, 0.4, None) == pytest.approx(0.1, abs=0.1)


def test_what_the_last_logits_thought_is_learned() -> None:
    calibrator = taught("gap")
    assert calibrator.chance(0.45, 0, None, -6.0) == pytest.approx(0.8, abs=0.1)
    assert calibrator.chance(0.45, 0, None, -20.0) == pytest.approx(0.1, abs=0.1)


def test_likeness_counts_in_the_models_own_deviations() -> None:
    """Weights learned on one model serve another whose similarities all lie close together."""
    other = Calibrator.of(taught("similarity").state())
    assert other.chance(0.45, 0, 0.99, None) == other.chance(0.45, 0, 0.98, None)  # it has seen none yet
    for _ in range(60):
        for similarity in (0.98, 0.99):
            other.learn(0.45, 0, similarity, None, None, similarity > 0.985)
    assert other.chance(0.45, 0, 0.99, None) > 0.6
    assert other.chance(0.45, 0, 0.98, None) < 0.3


def test_it_is_kept_with_the_table(tmp_path: Path) -> None:
    table = AcceptanceTable()
    table.calibrator = taught("gap")
    table.save(tmp_path / "table.json")
    again = AcceptanceTable.load(tmp_path / "table.json").calibrator
    assert again.chance(0.45, 0, None, -6.0) == pytest.approx(table.calibrator.chance(0.45, 0, None, -6.0), abs=1e-3)


@pytest.mark.parametrize("state", [None, [], [[1.0]], [[1.0] * 8, [float("nan")] * 8]])
def test_a_damaged_state_is_refused(state: object) -> None:
    with pytest.raises(TypeError):
        Calibrator.of(state)


def test_hopeless_and_certain_estimates_are_survived() -> None:
    calibrator = Calibrator()
    for estimate in (0.0, 1.0):
        calibrator.learn(estimate, 0, 0.5, -1.0, 0.2, True)
        assert 0 < calibrator.chance(estimate, 0, 0.5, -1.0) < 1
