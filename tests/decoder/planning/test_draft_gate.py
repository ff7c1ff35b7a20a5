"""The gate that lets a drafter rest: it opens where drafting saves more time than it takes, and now and then."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from decoder import Engine, SamplingParams
from decoder.drafters.context import DrafterContext
from decoder.drafters.plain import PlainDrafter
from decoder.generation import Generation
from decoder.planning.cost_curve import AssumedCurve
from decoder.planning.draft_gate import EXPLORATION, DraftGate, Drafting
from decoder.sequence import PassLoad
from tests.support.tiny_models import tiny_target

COPY = [5, 9, 14, 3, 8, 22, 31, 7] * 4
MILLISECOND = 0.001


def learned(added: int, shared: Drafting | None = None) -> DraftGate:
    """A gate after steps that added so many tokens; a draft takes a millisecond."""
    gate = DraftGate(shared or Drafting(), drafted=True)
    for _ in range(30):
        gate.learn(added, MILLISECOND)
    return gate


def test_it_opens_where_the_tokens_are_worth_more_than_the_draft() -> None:
    assert learned(10).opens(0.14 * MILLISECOND)
    assert not learned(0).opens(0.14 * MILLISECOND)
    assert learned(0).opens(100 * MILLISECOND)  # beside a long pass a draft costs nothing
    assert DraftGate().opens(MILLISECOND)  # nothing is known yet


def test_a_new_answer_is_believed_to_gain_what_others_did() -> None:
    assert DraftGate(learned(10).drafting).opens(0.14 * MILLISECOND)
    assert not DraftGate(learned(0).drafting).opens(0.14 * MILLISECOND)


def test_trials_take_their_share_of_the_time() -> None:
    gate, token = learned(0), 0.5 * MILLISECOND
    opened = sum(gate.opens(token) for _ in range(4000))
    assert 0.9 <= opened * MILLISECOND / (4000 * token * EXPLORATION) <= 1.1


def test_answers_without_a_draft_so_far_try_first() -> None:
    shared = Drafting()
    old, token = learned(0, shared), 0.5 * MILLISECOND
    tried = 0
    for _ in range(10):
        new = DraftGate(shared)
        for _ in range(70):
            assert not old.opens(token)
            tried += new.opens(token)
    assert tried >= 10


def test_a_draft_that_waits_for_code_to_load_does_not_close_the_gate() -> None:
    drafting = Drafting()
    drafting.took(13.0)
    for _ in range(20):
        drafting.took(0.1 * MILLISECOND)
    assert learned(2, drafting).opens(0.5 * MILLISECOND)


def test_it_takes_more_than_one_miss_to_close_it() -> None:
    gate, opened = DraftGate(), 0
    while gate.opens(2 * MILLISECOND):
        gate.drafted, opened = True, opened + 1
        gate.learn(0, MILLISECOND)
    assert 2 <= opened <= 5


def test_drafts_that_stay_slow_close_it() -> None:
    drafting = Drafting()
    for _ in range(200):
        drafting.took(100 * MILLISECOND)
    assert not learned(2, drafting).opens(0.5 * MILLISECOND)


def test_steps_without_a_draft_say_nothing() -> None:
    gate = learned(4)
    gate.drafted = False
    before = gate.gain
    gate.learn(0, MILLISECOND)
    assert gate.gain == before


def test_seeing_what_became_of_a_draft_counts_as_its_time() -> None:
    gate = DraftGate(drafted=True, seconds=MILLISECOND)
    for _ in range(400):
        gate.learn(2, 3 * MILLISECOND)
    assert 3.9 * MILLISECOND <= gate.drafting.seconds <= 4 * MILLISECOND


def test_what_the_nodes_took_of_the_pass_counts_against_a_draft() -> None:
    """Where a row costs as much as a pass of one, five nodes cost five tokens; three more are a loss of two."""
    context = DrafterContext(cost=AssumedCurve(0.02, 64), drafting=Drafting())
    engine = Engine(tiny_target(memory=0.0), "auto", context=context)
    sequence = engine.start(COPY, SamplingParams(max_tokens=4))
    sequence.pass_load, sequence.gate.drafted = PassLoad(2, 100, nodes=10), True
    engine._teach_gate(sequence, 3, 5, 0.0)
    assert context.drafting is not None
    assert sequence.gate.gain == pytest.approx(0.7 * 1.0 + 0.3 * (3 - 5))
    assert context.drafting.drafts == 1


@dataclass
class SlowDrafting(Drafting):
    """A draft takes for ever, whatever it takes on this machine."""

    def took(self, seconds: float) -> None:
        self.seconds = 1e6


def answer(drafting: Drafting | None, keep: bool = False, cost_of_64: float = 1.5) -> tuple[Generation, int]:
    """An answer by `auto`, and the number of its steps that rested."""
    context = DrafterContext(cost=AssumedCurve(0.02, cost_of_64), drafting=drafting)
    engine = Engine(tiny_target(memory=0.0), "auto", context=context)
    sequence = engine.start(COPY, SamplingParams(max_tokens=40, ignore_eos=True), keep=keep)
    engine.prefill(sequence)
    rested = 0
    while not sequence.finished:
        engine.step([sequence])
        rested += sequence.resting
    return sequence, rested


def test_a_resting_drafter_changes_no_token_and_no_kept_row() -> None:
    drafted, never = answer(Drafting())
    rested, often = answer(SlowDrafting(gain=0.0))
    kept, kept_often = answer(SlowDrafting(gain=0.0), keep=True)
    dear, always = answer(None, cost_of_64=64)
    plain = Engine(tiny_target(memory=0.0), "plain")
    expected = plain.start(COPY, SamplingParams(max_tokens=40, ignore_eos=True), drafter=PlainDrafter())
    plain.prefill(expected)
    while not expected.finished:
        plain.step([expected])
    assert drafted.tokens == rested.tokens == kept.tokens == dear.tokens == expected.tokens
    assert never == 0
    assert (always, dear.stats.drafted) == (dear.stats.steps - 1, 0)
    assert often >= 10
    assert kept_often >= 10
    assert drafted.stats.steps < rested.stats.steps
    prefix = kept.detach_prefix()
    assert prefix is not None
    assert prefix.usable([*prefix.ids, 0], kept.drafter.required_outputs) == len(prefix)
