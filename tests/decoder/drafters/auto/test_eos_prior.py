"""Endings: what is known of tokens that end answers, and what `auto` drafts behind them."""

from __future__ import annotations

from pathlib import Path

import pytest

from decoder import SamplingParams
from decoder.drafters.auto.drafter import AutoDrafter
from decoder.drafters.context import DrafterContext
from decoder.drafters.learning.acceptance import AcceptanceTable
from decoder.drafters.learning.eos_prior import EosPrior
from decoder.drafts.accepted import Accepted
from decoder.drafts.tree import DraftTree
from decoder.generation import Generation
from decoder.recording.pass_archive import RecordedOutputs

STOP, FULL_STOP = 99, 30
TEXT = [11, 12, 13, 14, 15, FULL_STOP, 41, 42, 43, 44]


def answer(context: DrafterContext, tokens: list[int]) -> AutoDrafter:
    """One answer of those tokens to a prompt that holds TEXT; ends where they hold STOP."""
    drafter = AutoDrafter()
    drafter.setup(context)
    sequence = Generation([7, *TEXT, 8], SamplingParams(max_tokens=64), (), drafter, None, frozenset({STOP}))
    for token in tokens:
        drafter.draft(sequence, 64)
        sequence.extend([token])
        drafter.observe(sequence, DraftTree(), Accepted([token], [], [None]), RecordedOutputs({}))
    return drafter


def drafted(context: DrafterContext, tokens: list[int]) -> float:
    """The chance of the likeliest node behind the tokens of an answer."""
    drafter = AutoDrafter(learn=False)
    drafter.setup(context)
    sequence = Generation([7, *TEXT, 8], SamplingParams(max_tokens=64), (), drafter, None, frozenset({STOP}))
    sequence.extend(tokens)
    return max(drafter.draft(sequence, 64).values)


def test_only_tokens_that_ended_an_answer_are_known() -> None:
    eos_prior = EosPrior()
    for _ in range(5):
        eos_prior.learn(1, ended=False)
    assert eos_prior.chance(1) == 0.0
    for _ in range(100):
        eos_prior.learn(2, ended=True)
        eos_prior.learn(2, ended=False)
    assert eos_prior.chance(2) == pytest.approx(0.5, abs=0.05)
    for _ in range(100):
        eos_prior.learn(2, ended=False)
    assert eos_prior.chance(2) < 0.15  # what was long ago fades


def test_little_is_drafted_behind_a_token_that_answers_end_with() -> None:
    context = DrafterContext()
    behind, within = TEXT[:6], TEXT[:4]
    before = drafted(context, behind), drafted(context, within)
    for _ in range(12):
        answer(context, [*TEXT[:6], STOP])
    assert drafted(context, behind) < 0.5 * before[0]
    assert drafted(context, within) > 0.5 * before[1]
    for _ in range(40):
        answer(context, TEXT)  # which go on
    assert drafted(context, behind) > 0.5 * before[0]


def test_an_end_says_nothing_of_copies() -> None:
    """Candidates behind the last token are not held to have failed."""
    once = DrafterContext()
    answer(once, TEXT[:6])
    ended = DrafterContext()
    answer(ended, [*TEXT[:6], STOP])
    tables = [context.acceptance.of("") for context in (once, ended)]
    assert tables[0].observed == tables[1].observed
    assert tables[0].accepted == tables[1].accepted
    assert tables[1].eos_prior.chance(FULL_STOP) > 0


def test_they_are_kept_with_the_table(tmp_path: Path) -> None:
    table = AcceptanceTable()
    for _ in range(4):
        table.eos_prior.learn(FULL_STOP, ended=True)
    table.save(tmp_path / "table.json")
    again = AcceptanceTable.load(tmp_path / "table.json")
    assert again.eos_prior.chance(FULL_STOP) == pytest.approx(4 / 7)
    assert again.copy().eos_prior.state() == table.eos_prior.state()
    for wrong in ([[1, 2, 1]], [[1]], {"1": 2}, [[1, -1, 2]], [["a", 1, 2]]):
        with pytest.raises(TypeError):
            EosPrior.of(wrong)
