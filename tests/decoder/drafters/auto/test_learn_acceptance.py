"""The script behind the table that `auto` ships with: it learns from what it is given, whatever it is recorded of."""

from __future__ import annotations

import importlib.util
import random
from pathlib import Path
from types import ModuleType

from decoder.drafters.auto.draft_probabilities import confidence_bucket
from decoder.drafters.learning.acceptance import KINDS, PROPOSAL_TYPES, AcceptanceTable, feature_bucket, shipped
from decoder.recording.record import Recording


def script() -> ModuleType:
    path = Path(__file__).parents[4] / "benchmarks" / "learn_acceptance.py"
    spec = importlib.util.spec_from_file_location("learn_acceptance", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def recording(name: str, prompt: list[int], answer: list[int]) -> Recording:
    return Recording(name, name, "", 1, prompt, answer, "m", "float32", "stop", 256)


def test_it_learns_from_recordings_of_any_benchmark() -> None:
    source = random.Random(0)
    copied, invented = [], []
    for number in range(6):
        prompt = [source.randrange(5000) for _ in range(150)]
        copied.append(recording(f"set{number % 2}", prompt, prompt[20:120]))
        invented.append(recording(f"set{number % 2}", prompt, [prompt[5], *(source.choice(prompt) for _ in range(80))]))
    bucket = feature_bucket(3, 0, 0, 0, 0, 1)
    learn = script().learn

    def learned(recordings: list[Recording], edits: int = 0, onto: AcceptanceTable | None = None) -> float:
        table = onto or AcceptanceTable()
        learn(table, recordings, edits, 1)
        return table.probability(bucket)

    known = AcceptanceTable()
    high, low = learned(copied, onto=known), learned(invented)
    assert low < 0.35
    assert high > 0.6
    assert learned(invented, 30) > low  # edited copies are mostly copies
    taken_on = known.copy()
    learn(taken_on, invented, 0, 1)
    one = feature_bucket(1, 0, 0, 0, 0, 0)
    assert taken_on.probability(one) < known.probability(one)  # goes on learning
    assert taken_on.probability(bucket) == high  # and forgets nothing


def test_every_round_replays_every_answer() -> None:
    answers = [recording("a", list(range(100)), list(range(10, 40)))]
    once, thrice = AcceptanceTable(), AcceptanceTable()
    script().learn(once, answers, 0, 1)
    script().learn(thrice, answers, 0, 3)
    bucket = feature_bucket(20, 0, 0, 0, 0, 3)
    assert thrice.probability(bucket) > once.probability(bucket)


def test_a_table_for_any_model_holds_no_tokens_of_one() -> None:
    table = AcceptanceTable()
    script().learn(table, [recording("a", list(range(100)), list(range(10, 40)))], 0, 1)
    assert table.eos_prior.state() == []
    assert shipped().eos_prior.state() == []


def test_averages_of_one_proposal_type_are_taken_over() -> None:
    """And no others: the coarsest ones are shared by all types."""
    copies, recycled = (feature_bucket(3, PROPOSAL_TYPES.index(name), 0, 0, 0, 1) for name in ("match", "recycled"))
    table, other = AcceptanceTable(), AcceptanceTable()
    for _ in range(200):
        table.learn(copies, accepted=True)
        table.learn(recycled, accepted=True)
        other.learn(copies, accepted=False)
        other.learn(recycled, accepted=False)
    before = table.probability(copies)
    assert table.probability(recycled) > 0.9
    table.take_type(PROPOSAL_TYPES.index("recycled"), other)
    assert table.probability(copies) == before
    assert table.probability(recycled) < 0.1


def test_the_shipped_table_knows_how_often_recycled_tokens_come_true() -> None:
    """About as often as their chance says."""
    recycled = PROPOSAL_TYPES.index("recycled")
    for chance in (0.05, 0.2, 0.5, 0.8, 0.97):
        bucket = feature_bucket(confidence_bucket(chance), recycled, KINDS.index("answer"), 0, 0, 1)
        assert abs(shipped().probability(bucket) - chance) < 0.15
