"""The gate that lets a drafter rest: it opens where drafting saves more time than it takes, and now and then."""

from __future__ import annotations

from decoder import Engine, SamplingParams
from decoder.drafters.context import DrafterContext
from decoder.drafters.plain import PlainDrafter
from decoder.planning.cost_curve import AssumedCurve
from decoder.planning.draft_gate import EXPLORATION, DraftGate
from decoder.sequence import Sequence
from tests.support.tiny_models import tiny_target

COPY = [5, 9, 14, 3, 8, 22, 31, 7] * 4


def learned(added: int, steps: int = 8) -> DraftGate:
    gate = DraftGate()
    for _ in range(steps):
        gate.drafted = True
        gate.learn(added)
    return gate


def test_it_opens_where_the_tokens_are_worth_more_than_the_draft() -> None:
    copying, idle = learned(10), learned(0)
    assert copying.opens(drafting=0.001, token=0.00014)
    assert not idle.opens(drafting=0.001, token=0.00014)
    assert idle.opens(drafting=0.001, token=0.1)  # beside a long pass a draft costs nothing
    assert DraftGate().opens(drafting=1.0, token=0.001)  # nothing is known yet


def test_trials_take_their_share_of_the_time() -> None:
    gate = learned(0)
    opened = sum(gate.opens(drafting=0.001, token=0.0005) for _ in range(4000))
    assert 0.9 <= opened * 0.001 / (4000 * 0.0005 * EXPLORATION) <= 1.1


def test_steps_without_a_draft_say_nothing() -> None:
    gate = learned(4)
    gate.drafted = False
    gate.learn(0)
    assert gate.gain == 4


def answer(drafting: float, keep: bool = False) -> tuple[Sequence, int]:
    """An answer by `auto` where drafting is believed to take some seconds; and the steps that rested."""
    target = tiny_target(memory=0.0)
    context = DrafterContext(cost=AssumedCurve(0.02, 1.5), draft_seconds=drafting)
    engine = Engine(target, "auto", context=context)
    sequence = engine.start(COPY, SamplingParams(max_tokens=40, ignore_eos=True), keep=keep)
    engine.prefill(sequence)
    rested = 0
    while not sequence.finished:
        context.draft_seconds = drafting  # whatever this machine takes
        engine.step([sequence])
        rested += sequence.resting
    if keep:
        prefix = sequence.detach_prefix()
        assert prefix is not None
        assert prefix.usable([*prefix.ids, 0], sequence.drafter.required_outputs) == len(prefix)
    return sequence, rested


def test_a_resting_drafter_changes_no_token_and_no_kept_row() -> None:
    drafted, never = answer(0.0)
    rested, often = answer(1e6)
    kept, kept_often = answer(1e6, keep=True)
    plain = Engine(tiny_target(memory=0.0), "plain")
    expected = plain.start(COPY, SamplingParams(max_tokens=40, ignore_eos=True), drafter=PlainDrafter())
    plain.prefill(expected)
    while not expected.finished:
        plain.step([expected])
    assert drafted.tokens == rested.tokens == kept.tokens == expected.tokens
    assert never == 0
    assert often >= 10
    assert kept_often >= 10
    assert drafted.stats.steps < rested.stats.steps
