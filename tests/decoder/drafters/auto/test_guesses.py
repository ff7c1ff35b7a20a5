"""Guesses: which tokens the last logits propose, what follows them, and how many are worth a row."""

from __future__ import annotations

import torch

from decoder import SamplingParams, Sequence
from decoder.drafters.auto.copies import GUESS, NO_PLACE
from decoder.drafters.auto.drafter import AutoDrafter
from decoder.drafters.auto.guesses import MOST, Guesses
from decoder.drafters.context import DrafterContext
from decoder.drafters.learning.acceptance import KINDS, AcceptanceTable, feature_bucket
from decoder.drafts.accepted import Accepted
from decoder.drafts.tree import DraftTree
from decoder.generation import Generation
from decoder.model.forward_outputs import ForwardOutputs
from tests.support.tiny_models import tiny_target

VOCABULARY = 800


def logits_of(*best: int) -> torch.Tensor:
    logits = torch.linspace(-20, -19, VOCABULARY)
    for rank, token in enumerate(best):
        logits[token] = 10.0 - rank
    return logits


def sequence_of(prompt: list[int], answer: list[int]) -> Sequence:
    drafter = AutoDrafter()
    drafter.setup(DrafterContext())
    sequence = Generation(prompt, SamplingParams(max_tokens=700), (), drafter, None, frozenset(), max_nodes=64)
    sequence.extend(answer)
    return sequence


def table_where_ranks_below_hit(rank: int) -> AcceptanceTable:
    table = AcceptanceTable()
    for number in range(MOST + 2):
        for _ in range(400):
            table.learn(feature_bucket(number, GUESS, KINDS.index("answer"), 0, 0, 0), number < rank)
    return table


def test_the_best_come_in_order_without_the_chosen_and_the_taken() -> None:
    guesses = Guesses(logits_of(7, 40, 41, 42, 43))
    found = guesses.candidates(sequence_of([1, 2, 3], [7]), table_where_ranks_below_hit(4), 0, 0.5, {41})
    assert [(guess.tokens[0], guess.rank) for guess in found] == [(40, 0), (42, 2), (43, 3)]
    assert {guess.position for guess in found} == {NO_PLACE}


def test_only_ranks_that_are_worth_a_row_are_proposed() -> None:
    guesses, sequence = Guesses(logits_of(7, *range(40, 60))), sequence_of([1, 2, 3], [7])
    for ranks in (0, 1, 3, 6):  # beyond, several ranks share a cell
        assert len(guesses.candidates(sequence, table_where_ranks_below_hit(ranks), 0, 0.5, ())) == ranks


def test_a_guess_is_followed_by_what_its_ngram_matched() -> None:
    sequence = sequence_of([1, 50, 51, 52, 53, 54, 55, 9, 2], [50])
    [guess, *_] = Guesses(logits_of(50, 51)).candidates(sequence, table_where_ranks_below_hit(1), 0, 0.5, ())
    assert guess.tokens == [51, 52, 53, 54, 55]
    assert sequence.index.tokens[guess.position + 1] == 52
    assert guess.length + 1 == 2  # [50, 51] matched before 52


def test_gaps_are_counted_from_the_chosen_token() -> None:
    logits = logits_of(7, 40)
    assert Guesses(logits).logit_margins([40, 7], 7).tolist() == [-1.0, 0.0]


def test_a_guess_is_drafted_and_sharpens_copies() -> None:
    """In the engine's own loop: the same copies, more probable where the last logits thought of them."""
    engine_target = tiny_target()
    drafter = AutoDrafter()
    context = DrafterContext(target=engine_target)
    drafter.setup(context)
    assert drafter.required_outputs.hidden == {engine_target.layers // 3}
    sequence = sequence_of([1, 50, 51, 3, 50, 52, 4], [50])
    drafter._guesses = Guesses(logits_of(50, 51))
    table = context.acceptance.of("")
    for _ in range(3000):
        table.calibrator.learn(0.3, 0, None, -1.0, None, True)
        table.calibrator.learn(0.3, 0, None, -25.0, None, False)
    tree = drafter.draft(sequence, 64)
    thought_of, other = tree.child(-1, 51), tree.child(-1, 52)
    assert thought_of is not None
    assert other is None or tree.values[thought_of] > tree.values[other]
    assert thought_of == 0


def test_ranks_that_are_not_proposed_can_rise_again() -> None:
    """A table that thinks nothing of guesses learns from looking back at what they would have been worth."""
    sequence = sequence_of([1, 2, 3], [7])
    drafter = sequence.drafter
    assert isinstance(drafter, AutoDrafter)
    drafter.setup(DrafterContext())
    table = drafter._context.acceptance.of("")
    for rank in range(MOST):
        for _ in range(2000):
            table.learn(feature_bucket(rank, GUESS, KINDS.index("answer"), 0, 0, 0), False)
    bucket = feature_bucket(0, GUESS, KINDS.index("answer"), 0, 0, 0)
    before = table.probability(bucket)
    for step in range(640):
        last, token = 100 + step, 101 + step
        sequence.extend([last])
        drafter.observe(
            sequence, DraftTree(), Accepted([last], [], [None]), ForwardOutputs(logits_of(last, token)[None])
        )
        drafter._recent_share = 0.0
        drafter.draft(sequence, 64)
    assert table.probability(bucket) > before + 0.005
