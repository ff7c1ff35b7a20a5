"""`logitspec` within its bounds: capacity, budget, the end of the answer, and where its tokens come from."""

from __future__ import annotations

import pytest
import torch

from decoder import SamplingParams
from decoder.drafters.logitspec import LogitSpecDrafter
from decoder.drafts.accepted import Accepted
from decoder.drafts.tree import ROOT, DraftTree
from decoder.generation import Generation
from decoder.model.forward_outputs import ForwardOutputs

VOCAB = 100
TEXT = [1, 2, 3, 4, 5, 6, 7, 8, 9, 1, 2]


def drafted(drafter: LogitSpecDrafter, budget: int = 64, left: int = 50, best: tuple[int, ...] = ()) -> DraftTree:
    """The tree behind TEXT; `best` are the tokens with the best logits, the others follow in order of their ids."""
    sequence = Generation(TEXT[:-1], SamplingParams(max_tokens=left + 1), (), drafter, None, frozenset())
    sequence.extend(TEXT[-1:])
    logits = -torch.arange(VOCAB, dtype=torch.float32)
    logits[list(best)] = 100.0 - torch.arange(len(best), dtype=torch.float32)
    drafter.observe(sequence, DraftTree(), Accepted(TEXT[-1:], [], []), ForwardOutputs(logits[None]))
    return drafter.draft(sequence, budget)


def branch(tree: DraftTree, guess: int) -> list[int]:
    node, tokens = tree.child(ROOT, guess), [guess]
    assert node is not None
    while node + 1 < len(tree) and tree.parents[node + 1] == node:
        node += 1
        tokens.append(tree.tokens[node])
    return tokens


def test_guesses_keep_four_then_three_then_one_token_themselves_included() -> None:
    fillers = range(20, 60)
    for rank, kept in ((0, 4), (7, 4), (8, 3), (31, 3), (32, 1), (40, 1)):
        best = [*list(fillers)[:rank], 5]
        assert branch(drafted(LogitSpecDrafter(), best=(2, *best)), 5) == [5, 6, 7, 8][:kept]


def test_the_next_token_is_no_guess_and_what_follows_it_is_drafted_whole() -> None:
    tree = drafted(LogitSpecDrafter(), best=(2, 50, 51))
    assert tree.child(ROOT, 2) is None
    assert branch(tree, 3) == [3, 4, 5, 6, 7, 8, 9, 1, 2]
    assert tree.tokens[9:11] == [50, 51]


def test_sources_say_what_was_copied() -> None:
    tree = drafted(LogitSpecDrafter(), best=(50, 7))
    copied = [
        (token, source) for token, source in zip(tree.tokens, tree.sources, strict=True) if source.offset is not None
    ]
    assert len(copied) > 9
    for token, source in copied:
        run = TEXT[-1:] if source.segment is None else TEXT[:-1]  # the answer, or the prompt's one segment
        assert run[source.offset or 0] == token
    for guess in (50, 7):
        node = tree.child(ROOT, guess)
        assert node is not None
        assert tree.sources[node].offset is None


def test_capacity_budget_and_the_end_of_the_answer_bound_it() -> None:
    assert len(drafted(LogitSpecDrafter())) == 63
    assert len(drafted(LogitSpecDrafter(capacity=10))) == 9
    assert len(drafted(LogitSpecDrafter(), budget=5)) == 5
    assert len(drafted(LogitSpecDrafter(), budget=0)) == 0
    for left in (1, 2, 3):
        tree = drafted(LogitSpecDrafter(), left=left)
        assert max(tree.depths, default=0) == left - 1


def test_without_logits_it_retrieves_only() -> None:
    sequence = Generation(TEXT, SamplingParams(max_tokens=50), (), LogitSpecDrafter(), None, frozenset())
    assert sequence.drafter.draft(sequence, 64).tokens == [3, 4, 5, 6, 7, 8, 9, 1, 2]


@pytest.mark.parametrize(
    "options", [{"capacity": 1}, {"max_ngram": 0}, {"max_ngram": 5}, {"length": 0}, {"length": 64}]
)
def test_options_are_checked(options: dict[str, int]) -> None:
    with pytest.raises(ValueError, match=next(iter(options))):
        LogitSpecDrafter(**options)
