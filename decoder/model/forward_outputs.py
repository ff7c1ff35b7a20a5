"""ForwardOutputs: the tensors of a target pass that drafters read: logits, hidden states, queries, features.

A pass keeps only the required outputs. Knows tensors and rows; knows no model and no drafter.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import torch

from decoder.drafts.mask_chains import MaskRows


@dataclass(frozen=True, slots=True)
class RequiredOutputs:
    """The outputs that a drafter reads besides the last row's logits, which it always gets.

    Attributes:
        hidden: decoder layers (0 is the first) whose output is kept.
        queries: decoder layers whose queries, after the rotary embedding, are kept.
        all_logits: whether to keep the logits of every row that chose a token of the step, instead of the last row's.
        tree_logits: whether to keep the logits of every row of a verify pass, whether or not its token was accepted.
        features: whether to keep the output of the final norm, from which the target's head computes logits.
        last: decoder layers whose output is kept of the last row only. Rows of a reused prefix need not have it.
    """

    hidden: frozenset[int] = frozenset()
    queries: frozenset[int] = frozenset()
    all_logits: bool = False
    tree_logits: bool = False
    features: bool = False
    last: frozenset[int] = frozenset()

    def __or__(self, other: RequiredOutputs) -> RequiredOutputs:
        return RequiredOutputs(
            self.hidden | other.hidden,
            self.queries | other.queries,
            self.all_logits or other.all_logits,
            self.tree_logits or other.tree_logits,
            self.features or other.features,
            self.last | other.last,
        )

    def __bool__(self) -> bool:
        logits = self.all_logits or self.tree_logits
        return bool(self.hidden or self.queries or logits or self.features or self.last)


NOTHING = RequiredOutputs()


@dataclass(frozen=True, slots=True)
class ForwardOutputs:
    """The outputs of a pass for one sequence, one row per token.

    A verify pass has rows root, node 0, node 1, ...: row 0 predicts the token after the root, row i + 1 the token
    after node i. A prefill has the prompt's rows, but logits and queries of the last row only.

    Attributes:
        logits: [rows, V], raw.
        hidden: layer -> [rows, D].
        queries: layer -> [rows, heads, head_dim].
        features: [rows, D], after the final norm; None if not required.
        masks: the adaptive rows, which the other attributes leave out. After `along`, those that follow the row that
            chose the step's last token. None if there are none.
        last: layer -> [D], of the pass's last row.
        tree_logits: [1 + n, V], the rows of root and all n nodes, as they are before `along`; None before it, after a
            prefill, and if not required.
    """

    logits: torch.Tensor
    hidden: Mapping[int, torch.Tensor] = field(default_factory=dict)
    queries: Mapping[int, torch.Tensor] = field(default_factory=dict)
    features: torch.Tensor | None = None
    masks: MaskRows | None = None
    last: Mapping[int, torch.Tensor] = field(default_factory=dict)
    tree_logits: torch.Tensor | None = None

    @property
    def has_logits(self) -> bool:
        """Whether there are logits: always, except in a replayed recording without them."""
        return True

    def part(self, required_outputs: RequiredOutputs, start: int, stop: int, first: int, last: int) -> ForwardOutputs:
        """One sequence's required outputs of a pass, as views.

        Args:
            required_outputs: those of its drafter.
            start, stop: its rows in the pass.
            first, last: its rows among the rows with logits. They are its last rows; queries are of the same rows.
        """
        from_row = stop - (last - first)
        return ForwardOutputs(
            self.logits[first:last],
            {layer: self.hidden[layer][start:stop] for layer in required_outputs.hidden},
            {layer: self.queries[layer][from_row:stop] for layer in required_outputs.queries},
            self.features[start:stop] if required_outputs.features and self.features is not None else None,
            last={layer: self.hidden[layer][stop - 1] for layer in required_outputs.last},
        )

    @staticmethod
    def joined(chunks: Sequence[ForwardOutputs]) -> ForwardOutputs:
        """The outputs of a prompt in chunks: all hidden states and features, the last chunk's logits and queries."""
        last = chunks[-1]
        if len(chunks) == 1 or not (last.hidden or last.features is not None):
            return last
        hidden = {layer: torch.cat([chunk.hidden[layer] for chunk in chunks]) for layer in last.hidden}
        features = [chunk.features for chunk in chunks if chunk.features is not None]
        all_features = torch.cat(features) if len(features) == len(chunks) else None
        return ForwardOutputs(last.logits, hidden, last.queries, all_features, last=last.last)

    def along(self, path: Sequence[int], all_logits: bool = False, tree_logits: bool = False) -> ForwardOutputs:
        """The outputs of the root and the accepted nodes of a verify pass, as drafters observe them.

        Args:
            path: accepted nodes.
            all_logits: whether `logits` have the rows of `hidden`: [1 + len(path), V].
            tree_logits: whether to have the logits of the other nodes as well.

        Returns:
            `logits` [1, V] and `queries` [1, heads, head_dim] of the row that chose the step's last token; `hidden`
            and `features` [1 + len(path), D], whose row i chose the step's token i. A prefill has the same shapes.
            They may be views of the whole pass.
        """
        last = path[-1] + 1 if path else 0
        rows: slice | list[int] = [0, *(node + 1 for node in path)]
        if rows == list(range(1 + len(path))):
            rows = slice(0, 1 + len(path))  # a GPU would fetch the numbers first
        return ForwardOutputs(
            self.logits[rows] if all_logits else self.logits[last : last + 1],
            {layer: states[rows] for layer, states in self.hidden.items()},
            {layer: queries[last : last + 1] for layer, queries in self.queries.items()},
            None if self.features is None else self.features[rows],
            None if self.masks is None else self.masks.after(path),
            tree_logits=self.logits if tree_logits else None,
        )
