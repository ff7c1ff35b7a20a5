"""The drafter of next tokens: which row of a pass teaches which context."""

from __future__ import annotations

import torch

from decoder import Generation, SamplingParams
from decoder.drafters.context import DrafterContext
from decoder.drafters.learning.next_tokens import MOST_DOMAINS, NextTokens
from decoder.drafters.untrained.next_token_drafter import NextTokenDrafter
from decoder.drafts.accepted import Accepted
from decoder.drafts.tree import ROOT, DraftTree, TokenSource
from decoder.model.forward_outputs import ForwardOutputs

VOCAB = 300
SOURCE = TokenSource("recycling")


def sequence_of(context: DrafterContext, prompt: list[int], domain: str = "", tokens: int = 50) -> Generation:
    drafter = NextTokenDrafter(16)
    drafter.setup(context)
    return Generation(prompt, SamplingParams(max_tokens=tokens), (), drafter, None, frozenset(), domain=domain)


def rows(*best: int) -> torch.Tensor:
    """Logits of rows that favour these tokens, each by far."""
    logits = torch.zeros(len(best), VOCAB)
    logits[torch.arange(len(best)), torch.tensor(best)] = 20.0
    return logits


def learned(table: NextTokens, before: int, token: int) -> list[int]:
    return table.likeliest(before, token, 1, 1, 0.5)[1]


def test_each_row_teaches_the_two_tokens_before_what_it_predicts() -> None:
    """A tree of two branches, of which one node was accepted."""
    context = DrafterContext()
    sequence = sequence_of(context, [1, 2])
    sequence.extend([3])
    sequence.drafter.observe(sequence, DraftTree(), Accepted([3], [], [None]), ForwardOutputs(rows(3)))
    table = context.next_tokens.of("")
    assert learned(table, 1, 2) == [3]
    tree = DraftTree()
    for token, parent in ((4, ROOT), (5, ROOT), (6, 0), (7, 1)):
        tree.add(token, parent, SOURCE)
    outputs = ForwardOutputs(rows(4, 16), tree_logits=rows(4, 16, 17, 18, 19))
    sequence.extend([4, 16])
    sequence.drafter.observe(sequence, tree, Accepted([4, 16], [0], [SOURCE, None]), outputs)
    for before, token, predicted in ((2, 3, 4), (3, 4, 16), (3, 5, 17), (4, 6, 18), (5, 7, 19)):
        assert learned(table, before, token) == [predicted]
        other = table.likeliest(99, token, 1, 1, 0.1)[1]
        assert other == [predicted], "the context of one token learned it too"
    # Only the context of two tokens tells these apart.
    sequence.extend([4, 20])
    again = ForwardOutputs(rows(4, 20), tree_logits=rows(4, 20))
    chain = DraftTree.chain([4], [SOURCE])
    sequence.drafter.observe(sequence, chain, Accepted([4, 20], [0], [SOURCE, None]), again)
    assert learned(table, 3, 4) == [16]
    assert learned(table, 16, 4) == [20]


def test_a_prompt_of_one_token_and_a_strict_step_and_a_finished_answer() -> None:
    context = DrafterContext()
    sequence = sequence_of(context, [9], tokens=3)
    sequence.extend([3])
    sequence.drafter.observe(sequence, DraftTree(), Accepted([3], [], [None]), ForwardOutputs(rows(3)))
    table = context.next_tokens.of("")
    assert learned(table, -1, 9) == [3]
    assert sequence.drafter.draft(sequence, 8).depths == [], "nothing is known after 3"
    sequence.extend([4])
    chain = DraftTree.chain([4], [SOURCE])
    strict = Accepted([4], [0], [SOURCE], doubtful=5)
    sequence.drafter.observe(sequence, chain, strict, ForwardOutputs(rows(4), tree_logits=rows(4, 6)))
    assert learned(table, 9, 3) == [4]
    assert learned(table, 3, 4) == [6]
    sequence.extend([8])
    assert sequence.finished
    sequence.drafter.observe(
        sequence, DraftTree(), Accepted([8], [], [None]), ForwardOutputs(rows(8), tree_logits=rows(8))
    )
    assert learned(table, 3, 4) == [6]


def test_more_domains_than_are_kept_may_answer_at_once() -> None:
    """An answer keeps its domain's table while others push it out."""
    context = DrafterContext()
    sequences = [sequence_of(context, [1, 2], f"{number}") for number in range(MOST_DOMAINS + 1)]
    for sequence in sequences:
        sequence.extend([3])
        outputs = ForwardOutputs(rows(3), tree_logits=rows(3))
        sequence.drafter.observe(sequence, DraftTree(), Accepted([3], [], [None]), outputs)
    for sequence in sequences:
        sequence.extend([1, 2])
        assert sequence.drafter.draft(sequence, 1).tokens == [3]
