"""`pld_plus`: PLD+ (arXiv 2412.01447), section 4.2.

The last token's earlier occurrences P = {j < t : x_j = x_t} are ranked by what the model itself made of them, and the
best one, j*, is copied from on: x_{j*+1}, ..., x_{j*+K} as one chain, K = 70. Two rankings:

* `h` (equation 3): the cosine of the hidden states H_{j-1} and H_{t-1} of one layer. x_t itself has no state yet: it
  was chosen from H_{t-1}.
* `a` (equation 2): the largest attention A_{t-1 -> j} that any of the induction heads pays.

Positions count from 0 here. An occurrence at 0 has no state before it and ranks last in `h`. The paper's layer is 9 to
13 of 32 to 60, counted from 1; its heads are the top 50 of 1,024. It leaves open which of equal ranks wins: the first.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Literal, get_args

import numpy as np
import torch
from numpy.typing import NDArray

from decoder.drafters.base import CopyDrafter
from decoder.drafters.state_rows import StateRows, followed
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
    """Prompt lookup ranked by the target's own artifacts.

    Args:
        ranking: "h" by hidden states, "a" by the attention of induction heads.
        length: tokens copied, the paper's K.
        layer: decoder layer, from 0, whose output `h` compares; the engine's choice where None, and where that has
            none either, a third of the way up.
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
        """Of `h`: one row for every committed token but the last; None before prefill."""
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
                self.name, "it compares one layer's hidden states; name the layer, as in pld_plus:layer=9"
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
            self.states = followed(self.states, sequence, outputs.hidden[self.layer])
        self._queries = {
            layer: outputs.queries[layer][-1][heads] for layer, heads in self._heads.items() if layer in outputs.queries
        }

    def starts(self, sequence: Sequence) -> list[int]:
        positions, scores = self.ranked(sequence)
        return [int(positions[scores.argmax()]) + 1] if len(positions) else []

    def ranked(self, sequence: Sequence) -> tuple[NDArray[np.int64], NDArray[np.floating]]:
        """The earlier occurrences of the last token and how they rank.

        Returns:
            positions [n], ascending, and their scores [n]: cosines, -2 where there is no state to compare, or natural
            logarithms of attention.

        Raises DrafterUnavailable where no pass left what the ranking reads, as when recorded answers are replayed.
        """
        last = sequence.position - 1
        positions = sequence.index.positions(sequence.last_token)
        positions = positions[positions < last]
        ready = self.states is not None if self.ranking == "h" else bool(self._queries)
        if not ready:
            raise DrafterUnavailable(self.name, "no pass left hidden states or queries; run it on a model")
        if not len(positions):
            return positions, np.empty(0)
        scores = self._similarities(positions, last) if self.ranking == "h" else self._attention(sequence, positions)
        return positions, scores

    def _similarities(self, positions: NDArray[np.int64], last: int) -> NDArray[np.floating]:
        assert self.states is not None
        known = positions > self.states.first  # H_{j-1} is there
        cosines: NDArray[np.floating] = self.states.cosines(positions[known] - 1, last - 1).cpu().numpy()
        if known.all():
            return cosines
        scores = np.full(len(positions), -2.0)
        scores[known] = cosines
        return scores

    def _attention(self, sequence: Sequence, positions: NDArray[np.int64]) -> NDArray[np.floating]:
        """log max over heads of A_{t-1 -> j}, [n]: one softmax row a head, against the cached keys."""
        target = self._target
        assert target is not None
        groups = target.heads // target.kv_heads
        at = torch.from_numpy(positions).to(target.device)
        best: list[torch.Tensor] = []
        for layer, heads in self._heads.items():
            keys = sequence.cache.keys(layer)  # [kv_heads, t, head_dim]
            for shared in sorted({head // groups for head in heads}):
                rows = [row for row, head in enumerate(heads) if head // groups == shared]
                made = log_attention(self._queries[layer][rows], keys[shared], at, target.scaling(layer))
                best.append(made.amax(0))
        scores: NDArray[np.floating] = torch.stack(best).amax(0).cpu().numpy()
        return scores


def log_attention(queries: torch.Tensor, keys: torch.Tensor, at: torch.Tensor, scaling: float) -> torch.Tensor:
    """Logarithm of the attention that queries pay to some of their keys.

    Args:
        queries: [heads, head_dim]; keys: [S, head_dim], all that the queries see.
        at: int64 [n], the keys asked about.
        scaling: of the products, before the softmax.

    Returns:
        [heads, n], float32, or float64 where the model is.
    """
    wide = torch.promote_types(queries.dtype, torch.float32)
    return (queries.to(wide) * scaling @ keys.to(wide).T).log_softmax(1)[:, at]
