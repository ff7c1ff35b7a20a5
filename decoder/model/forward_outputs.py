"""What a target pass leaves behind for drafters: logits, hidden states, queries. A pass keeps only what was asked for.

Knows tensors and which rows of a pass were kept; knows no model and no drafter.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import torch

from decoder.drafts.mask_chains import MaskRows


@dataclass(frozen=True, slots=True)
class RequiredOutputs:
    """What a drafter reads besides the last logits, which are always there.

    Attributes:
        hidden: decoder layers (0 is the first) whose output is kept.
        queries: decoder layers whose queries, after the rotary embedding, are kept.
        all_logits: hand over the logits of every row that chose a token of the step, not the last one's alone.
        features: the final norm's output, which the target's head turns into logits.
    """

    hidden: frozenset[int] = frozenset()
    queries: frozenset[int] = frozenset()
    all_logits: bool = False
    features: bool = False

    def __or__(self, other: RequiredOutputs) -> RequiredOutputs:
        return RequiredOutputs(
            self.hidden | other.hidden,
            self.queries | other.queries,
            self.all_logits or other.all_logits,
            self.features or other.features,
        )

    def __bool__(self) -> bool:
        return bool(self.hidden or self.queries or self.all_logits or self.features)


NOTHING = RequiredOutputs()


@dataclass(frozen=True, slots=True)
class ForwardOutputs:
    """What a pass leaves behind for one sequence, one row for each token it computed.

    A verify pass has rows root, node 0, node 1, ...; row 0 follows the root, row i + 1 follows node i. A prefill has
    the prompt's rows, but only the last one's logits and queries.

    Attributes:
        logits: [rows, V], raw.
        hidden: layer -> [rows, D].
        queries: layer -> [rows, heads, head_dim].
        features: [rows, D], behind the final norm; None where they were not asked for.
        masks: the adaptive rows of the pass, which are in none of the others; those behind the row that chose the
            step's last token once `kept` was asked; None where there are none.
    """

    logits: torch.Tensor
    hidden: Mapping[int, torch.Tensor] = field(default_factory=dict)
    queries: Mapping[int, torch.Tensor] = field(default_factory=dict)
    features: torch.Tensor | None = None
    masks: MaskRows | None = None

    @property
    def has_logits(self) -> bool:
        """Whether logits are there; they always are, unless a recording without them is replayed."""
        return True

    def part(self, required_outputs: RequiredOutputs, start: int, stop: int, first: int, last: int) -> ForwardOutputs:
        """One sequence's rows of a pass, start..stop, as views, and no more than it asked for.

        Args:
            first, last: its rows among those that have logits, which are its last ones; queries are of the same rows.
        """
        from_row = stop - (last - first)
        return ForwardOutputs(
            self.logits[first:last],
            {layer: self.hidden[layer][start:stop] for layer in required_outputs.hidden},
            {layer: self.queries[layer][from_row:stop] for layer in required_outputs.queries},
            self.features[start:stop] if required_outputs.features and self.features is not None else None,
        )

    @staticmethod
    def joined(chunks: Sequence[ForwardOutputs]) -> ForwardOutputs:
        """Of a prompt processed in chunks: all hidden rows and features, the last chunk's logits and queries."""
        last = chunks[-1]
        if len(chunks) == 1 or not (last.hidden or last.features is not None):
            return last
        hidden = {layer: torch.cat([chunk.hidden[layer] for chunk in chunks]) for layer in last.hidden}
        features = [chunk.features for chunk in chunks if chunk.features is not None]
        joined = torch.cat(features) if len(features) == len(chunks) else None
        return ForwardOutputs(last.logits, hidden, last.queries, joined)

    def kept(self, path: Sequence[int], all_logits: bool = False) -> ForwardOutputs:
        """What drafters get to see of a verify pass: the rows of the root and the accepted nodes.

        Args:
            path: accepted nodes.
            all_logits: `logits` like `hidden`, [1 + len(path), V].

        Returns:
            `logits` [1, V] and `queries` [1, heads, head_dim] of the row that chose the step's last token, `hidden`
            and `features` [1 + len(path), D]: row i is the one that chose the step's token i. The same shapes as after
            a prefill.
        """
        last = path[-1] + 1 if path else 0
        rows = [0, *(node + 1 for node in path)]
        return ForwardOutputs(
            self.logits[rows] if all_logits else self.logits[last : last + 1],
            {layer: states[rows] for layer, states in self.hidden.items()},
            {layer: queries[last : last + 1] for layer, queries in self.queries.items()},
            None if self.features is None else self.features[rows],
            None if self.masks is None else self.masks.behind(path),
        )
