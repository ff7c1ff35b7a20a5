"""DrafterContext: what the drafters of one engine share. `load_engine` fills it; each new drafter reads it."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from decoder.drafters.learning.acceptance import AcceptanceTables
from decoder.drafters.learning.neural_gate import NeuralGate
from decoder.drafters.learning.next_tokens import NextTokensByDomain
from decoder.drafters.learning.successors import SuccessorsByDomain
from decoder.planning.cost_curve import CostCurve
from decoder.planning.draft_gate import Drafting

if TYPE_CHECKING:
    from decoder.heads.head import FittedHead
    from decoder.model.target import TargetModel


@dataclass(slots=True)
class DrafterContext:
    """What drafters may use besides their own sequence.

    Attributes:
        target: the target model; None if recorded answers are replayed.
        draft_model: a smaller model with the target's tokenizer.
        eagle_head: an EAGLE head for the target.
        hidden_layer: decoder layer whose hidden states rank copies; None takes the layer at a third of the depth.
        induction_heads: the target's induction heads, as (layer, head) pairs.
        acceptance: the learned acceptance of copies, by domain.
        successors: what the target favoured after each token, by domain.
        next_tokens: what it favours after one or two tokens, by domain.
        recycle: whether `auto` drafts from `next_tokens`; reading the logits of every row takes up to a millisecond.
        cost: the cost curve of the target's passes on this machine.
        drafting: what drafting takes and adds in a step; None if no drafter shall rest while rows are cheap.
        gate: decides when a neural drafter is worth its time.
        mask_gate: decides the same for masks, whose time is that of their rows.
        cost_file: stores the cost curve between runs.
    """

    target: TargetModel | None = None
    draft_model: TargetModel | None = None
    eagle_head: FittedHead | None = None
    hidden_layer: int | None = None
    induction_heads: tuple[tuple[int, int], ...] = ()
    acceptance: AcceptanceTables = field(default_factory=AcceptanceTables)
    successors: SuccessorsByDomain = field(default_factory=SuccessorsByDomain)
    next_tokens: NextTokensByDomain = field(default_factory=NextTokensByDomain)
    recycle: bool = False
    cost: CostCurve = field(default_factory=CostCurve)
    drafting: Drafting | None = None
    gate: NeuralGate = field(default_factory=NeuralGate)
    mask_gate: NeuralGate = field(default_factory=NeuralGate)
    cost_file: Path | None = None

    @property
    def recycles(self) -> bool:
        """Whether `auto` drafts from `next_tokens`: where it may, and no weights of a drafter's own are loaded."""
        adapted = self.target is not None and self.target.adapters is not None
        return self.recycle and not adapted and self.eagle_head is None and self.draft_model is None

    @property
    def compared_layer(self) -> int | None:
        """The layer whose hidden states are compared; None if neither `hidden_layer` nor the target is known."""
        if self.hidden_layer is None and self.target is not None:
            return self.target.layers // 3
        return self.hidden_layer

    def memory(self) -> dict[str, int]:
        """Bytes of each neural drafter on the device, and of its cache per token."""
        sizes = {}
        if self.draft_model is not None:
            model = self.draft_model
            sizes["draft_model"] = model.nbytes
            sizes["draft_model_cache_per_token"] = model.new_cache(1).nbytes
        if self.eagle_head is not None:
            sizes["eagle_head"] = self.eagle_head.nbytes
            sizes["eagle_head_cache_per_token"] = self.eagle_head.new_cache(1).nbytes
        if self.target is not None and self.target.adapters is not None:
            sizes["sdsat_adapters"] = self.target.adapters.nbytes
        return sizes

    def save(self) -> None:
        """Store what was learned while serving, in the files that the context names."""
        self.acceptance.save()
        if self.cost_file is not None:
            self.cost.save(self.cost_file)
