"""What a target pass leaves behind for drafters: logits, hidden states, queries. A pass keeps only what was asked for.

Knows tensors and which rows of a pass were kept; knows no model and no drafter.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import torch


@dataclass(frozen=True, slots=True)
class Needs:
    """What a drafter reads besides the last logits, which are always there.

    Attributes:
        hidden: decoder layers (0 is the first) whose output is kept.
        queries: decoder layers whose queries, after the rotary embedding, are kept.
        all_logits: hand over the logits of every row that chose a token of the step, not the last one's alone.
    """

    hidden: frozenset[int] = frozenset()
    queries: frozenset[int] = frozenset()
    all_logits: bool = False

    def __or__(self, other: Needs) -> Needs:
        return Needs(self.hidden | other.hidden, self.queries | other.queries, self.all_logits or other.all_logits)

    def __bool__(self) -> bool:
        return bool(self.hidden or self.queries or self.all_logits)


NOTHING = Needs()


@dataclass(frozen=True, slots=True)
class Artifacts:
    """What a pass leaves behind for one sequence, one row for each token it computed.

    A verify pass has rows root, node 0, node 1, ...; row 0 follows the root, row i + 1 follows node i. A prefill has
    the prompt's rows, but only the last one's logits and queries.

    Attributes:
        logits: [rows, V], raw.
        hidden: layer -> [rows, D].
        queries: layer -> [rows, heads, head_dim].
    """

    logits: torch.Tensor
    hidden: Mapping[int, torch.Tensor] = field(default_factory=dict)
    queries: Mapping[int, torch.Tensor] = field(default_factory=dict)

    def part(self, needs: Needs, start: int, stop: int, first: int, last: int) -> Artifacts:
        """One sequence's rows of a pass, start..stop, as views, and no more than it asked for.

        Args:
            first, last: its rows among those that have logits, which are its last ones; queries are of the same rows.
        """
        from_row = stop - (last - first)
        return Artifacts(
            self.logits[first:last],
            {layer: self.hidden[layer][start:stop] for layer in needs.hidden},
            {layer: self.queries[layer][from_row:stop] for layer in needs.queries},
        )

    @staticmethod
    def joined(chunks: Sequence[Artifacts]) -> Artifacts:
        """Of a prompt that was processed in chunks: all hidden rows, the last chunk's logits and queries."""
        last = chunks[-1]
        if len(chunks) == 1 or not last.hidden:
            return last
        hidden = {layer: torch.cat([chunk.hidden[layer] for chunk in chunks]) for layer in last.hidden}
        return Artifacts(last.logits, hidden, last.queries)

    def kept(self, path: Sequence[int], all_logits: bool = False) -> Artifacts:
        """What drafters get to see of a verify pass: the rows of the root and the accepted nodes.

        Args:
            path: accepted nodes.
            all_logits: `logits` like `hidden`, [1 + len(path), V].

        Returns:
            `logits` [1, V] and `queries` [1, heads, head_dim] of the row that chose the step's last token, `hidden`
            [1 + len(path), D]: row i is the one that chose the step's token i. The same shapes as after a prefill.
        """
        last = path[-1] + 1 if path else 0
        rows = [0, *(node + 1 for node in path)]
        return Artifacts(
            self.logits[rows] if all_logits else self.logits[last : last + 1],
            {layer: states[rows] for layer, states in self.hidden.items()},
            {layer: queries[last : last + 1] for layer, queries in self.queries.items()},
        )
