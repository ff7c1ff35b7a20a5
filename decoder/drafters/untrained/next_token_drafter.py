"""Drafts the likeliest texts by `learning.next_tokens`: what `auto` recycles. Every row of a pass, accepted or not,
teaches the tables, as in Token Recycling; the prompt's rows say nothing, since passes compute no logits for them.
"""

from __future__ import annotations

from typing import ClassVar

from decoder.drafters.base import Drafter
from decoder.drafters.best_tokens import best_of_rows
from decoder.drafters.context import DrafterContext
from decoder.drafters.learning.next_token_tables import BEST
from decoder.drafters.learning.next_tokens import NOT_BEFORE, NextTokens
from decoder.drafts.accepted import Accepted
from decoder.drafts.tree import ROOT, DraftTree, TokenSource
from decoder.model.forward_outputs import ForwardOutputs, RequiredOutputs
from decoder.sequence import Sequence


class NextTokenDrafter(Drafter):
    """It reads raw logits, for sampled answers as well.

    Args:
        nodes: most draft tokens.
    """

    name: ClassVar[str] = "recycling"

    def __init__(self, nodes: int) -> None:
        self.nodes = nodes
        self.least = 0.0
        """Value below which a node is left out."""
        self.required_outputs = RequiredOutputs(tree_logits=True)
        self._context = DrafterContext()
        self._source = TokenSource(self.name)
        self._table: NextTokens | None = None

    def setup(self, context: DrafterContext) -> None:
        self._context = context

    def observe(self, sequence: Sequence, tree: DraftTree, accepted: Accepted, outputs: ForwardOutputs) -> None:
        if sequence.finished:  # the answer may hold only some of the accepted tokens
            return
        last = sequence.suffix(len(accepted.tokens) + 2)[: -len(accepted.tokens)]
        before, root = last if len(last) == 2 else (NOT_BEFORE, last[0])
        if outputs.tree_logits is None:  # after prefill
            befores, tokens, logits = [before], [root], outputs.logits
        else:
            tokens, logits = [root, *tree.tokens], outputs.tree_logits
            befores = [before, *(root if parent == ROOT else tree.tokens[parent] for parent in tree.parents)]
        best, values = best_of_rows(logits, BEST)
        self._table_of(sequence).learn(befores, tokens, best.numpy(), values.double().numpy())

    def draft(self, sequence: Sequence, budget: int) -> DraftTree:
        last = sequence.suffix(2)
        before = last[0] if len(last) == 2 else NOT_BEFORE
        # A pass yields one token more than it accepts, so a node at depth `remaining` is never used.
        parents, tokens, values = self._table_of(sequence).likeliest(
            before, last[-1], min(self.nodes, budget), sequence.remaining - 1, self.least
        )
        depths: list[int] = []
        for parent in parents:
            depths.append(1 if parent == ROOT else depths[parent] + 1)
        return DraftTree.of(tokens, parents, depths, [self._source] * len(tokens), values)

    def _table_of(self, sequence: Sequence) -> NextTokens:
        """The domain's table at the first step: more domains may answer at once than are kept."""
        if self._table is None:
            self._table = self._context.next_tokens.of(sequence.domain)
        return self._table
