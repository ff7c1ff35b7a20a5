"""`pld_plus`: PLD+ (arXiv 2412.01447), section 4.2.

The last token's earlier occurrences P = {j < t : x_j = x_t} are ranked by the model's own outputs. The tokens after the
best one, j*, are copied as one chain x_{j*+1}, ..., x_{j*+K}, with K = 70 (section 4.3). There are two rankings:

* `h` (section 4.2.2, equation 3): the cosine of the hidden states H_{j-1} and H_{t-1} of one layer. x_t itself has no
  state yet: it was chosen from H_{t-1}.
* `a` (section 4.2.1, equation 2): the largest attention A_{t-1 -> j} that any of the induction heads pays.

Positions count from 0 here. An occurrence at 0 has no state before it and ranks last in `h`. The paper uses a layer
from 9 to 13 of 32 to 60, counted from 1, and the top 50 of 1,024 heads. It does not say which of equal ranks wins; here
it is the first.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Literal, get_args

import numpy as np
import torch
from numpy.typing import NDArray

from decoder.drafters.base import CopyDrafter
from decoder.drafters.state_rows import StateRows, extended
from decoder.drafts.tree import DraftTree
from decoder.errors import DrafterUnavailable
from decoder.model.forward_outputs import ForwardOutputs, RequiredOutputs
from decoder.sequence import Sequence

if TYPE_CHECKING:
    from decoder.drafters.context import DrafterContext
    from decoder.drafts.accepted import Accepted
    from decoder.model.target import TargetModel

Ranking = Literal["h", "a"]


class PldPlusDrafter(CopyDrafter):
    """Prompt lookup ranked by the target's own outputs.

    Args:
        ranking: "h" by hidden states, "a" by the attention of induction heads.
        length: tokens to copy, the paper's K.
        layer: decoder layer, from 0, whose output `h` compares; `DrafterContext.compared_layer` if None.

    Raises:
        ValueError: an argument is out of range.
    """

    name: ClassVar[str] = "pld_plus"

    def __init__(self, ranking: Ranking = "h", length: int = 70, layer: int | None = None) -> None:
        super().__init__(length)
        if ranking not in get_args(Ranking):
            raise ValueError(f"ranking must be 'h' (hidden states) or 'a' (attention), got {ranking!r}")
        if layer is not None and layer < 0:
            raise ValueError(f"layer must be 0 or more, got {layer}")
        self.ranking = ranking
        self.layer = layer
        self._target: TargetModel | None = None
        self._heads: dict[int, list[int]] = {}  # layer -> induction heads
        self.states: StateRows | None = None
        """For `h`: one row for every committed token but the last; None before prefill."""
        self._queries: dict[int, torch.Tensor] = {}  # layer -> [induction heads, head_dim], of the last row

    def setup(self, context: DrafterContext) -> None:
        self._target = context.target
        if self.ranking == "h":
            self._choose_layer(context)
        else:
            self._choose_heads(context)

    def _choose_layer(self, context: DrafterContext) -> None:
        if self.layer is None:
            self.layer = context.compared_layer
        if self.layer is None:
            raise DrafterUnavailable(
                self.name, "ranking 'h' compares one layer's hidden states; name the layer, as in pld_plus:layer=9"
            )
        if context.target is not None and self.layer >= context.target.layers:
            last = context.target.layers - 1
            raise DrafterUnavailable(self.name, f"the model has no layer {self.layer}; choose one from 0 to {last}")
        self.required_outputs = RequiredOutputs(hidden=frozenset({self.layer}))

    def _choose_heads(self, context: DrafterContext) -> None:
        target = context.target
        if target is None:
            raise DrafterUnavailable(
                self.name, "ranking 'a' reads the model's attention, which no recording keeps; run it on the model"
            )
        if not context.induction_heads:
            raise DrafterUnavailable(
                self.name,
                "ranking 'a' needs the model's induction heads; find them once with `rag models heads MODEL` "
                "and load the model again, or use ranking 'h'",
            )
        self._heads = {}
        for layer, head in context.induction_heads:
            if not (0 <= layer < target.layers and 0 <= head < target.heads):
                raise DrafterUnavailable(
                    self.name,
                    f"the model has no head {head} in layer {layer}; find its heads with `rag models heads MODEL`",
                )
            self._heads.setdefault(layer, []).append(head)
        self.required_outputs = RequiredOutputs(queries=frozenset(self._heads))

    def observe(self, sequence: Sequence, tree: DraftTree, accepted: Accepted, outputs: ForwardOutputs) -> None:
        if self.layer is not None and self.layer in outputs.hidden:
            self.states = extended(self.states, sequence, outputs.hidden[self.layer])
        self._queries = {
            layer: outputs.queries[layer][-1][heads] for layer, heads in self._heads.items() if layer in outputs.queries
        }

    def starts(self, sequence: Sequence) -> list[int]:
        positions, scores = self.ranked(sequence)
        return [int(positions[scores.argmax()]) + 1] if len(positions) else []

    def ranked(self, sequence: Sequence) -> tuple[NDArray[np.int64], NDArray[np.floating]]:
        """The earlier occurrences of the last token, with scores.

        Returns:
            positions int64 [n], ascending, and their scores [n]: cosines, or -2 without a state to compare, for `h`;
            natural logarithms of attention for `a`.

        Raises:
            DrafterUnavailable: the passes did not keep the outputs that the ranking reads, as in a replay.
        """
        last = sequence.position - 1
        positions = sequence.index.positions(sequence.last_token)
        positions = positions[positions < last]
        ready = self.states is not None if self.ranking == "h" else bool(self._queries)
        if not ready:
            raise DrafterUnavailable(self.name, "there are no hidden states or queries yet; run it on a model")
        if not len(positions):
            return positions, np.empty(0)
        scores = self._similarities(positions, last) if self.ranking == "h" else self._attention(sequence, positions)
        return positions, scores

    def _similarities(self, positions: NDArray[np.int64], last: int) -> NDArray[np.floating]:
        """The cosine of H_{j-1} and H_{t-1} for each position j, [n]; -2 if there is no H_{j-1}."""
        assert self.states is not None
        has_state = positions > self.states.first
        cosines: NDArray[np.floating] = self.states.cosines(positions[has_state] - 1, last - 1).cpu().numpy()
        if has_state.all():
            return cosines
        scores = np.full(len(positions), -2.0)
        scores[has_state] = cosines
        return scores

    def _attention(self, sequence: Sequence, positions: NDArray[np.int64]) -> NDArray[np.floating]:
        """The log of the largest A_{t-1 -> j} of all heads for each position j, [n]: a softmax over keys per head."""
        target = self._target
        assert target is not None
        groups = target.heads // target.kv_heads
        columns = torch.from_numpy(positions).to(target.device)
        best: list[torch.Tensor] = []
        for layer, heads in self._heads.items():
            keys = sequence.cache.keys(layer)  # [kv_heads, t, head_dim]
            for kv_head in sorted({head // groups for head in heads}):
                rows = [row for row, head in enumerate(heads) if head // groups == kv_head]
                attention = log_attention(self._queries[layer][rows], keys[kv_head], columns, target.scaling(layer))
                best.append(attention.amax(0))
        scores: NDArray[np.floating] = torch.stack(best).amax(0).cpu().numpy()
        return scores


def log_attention(queries: torch.Tensor, keys: torch.Tensor, columns: torch.Tensor, scaling: float) -> torch.Tensor:
    """The logarithm of the attention that queries pay to some of their keys.

    Args:
        queries: [heads, head_dim].
        keys: [S, head_dim], all that the queries see.
        columns: int64 [n], the keys to return the attention for.
        scaling: factor of the products before the softmax.

    Returns:
        [heads, n]; float64 if the model is, else float32.
    """
    dtype = torch.promote_types(queries.dtype, torch.float32)
    return (queries.to(dtype) * scaling @ keys.to(dtype).T).log_softmax(1)[:, columns]
