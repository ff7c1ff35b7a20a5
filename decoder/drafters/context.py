"""DrafterContext: what the drafters of one engine share. Filled at loading, handed to each new drafter."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from decoder.drafters.learning.acceptance import AcceptanceTables
from decoder.drafters.learning.neural_gate import NeuralGate
from decoder.planning.cost_curve import CostCurve

if TYPE_CHECKING:
    from decoder.heads.head import FittedHead
    from decoder.model.target import TargetModel


@dataclass(slots=True)
class DrafterContext:
    """What drafters may use besides their own sequence.

    Attributes:
        target: the target model, for its sizes; None where recorded answers are replayed.
        draft_model: a smaller model with the target's tokenizer.
        eagle_head: an EAGLE head on the target.
        hidden_layer: decoder layer whose hidden states rank copies best; None takes a third of the way up.
        induction_heads: (layer, head) pairs found for the target.
        acceptance: what was learned of copies, by domain.
        cost: what passes of the target take on this machine.
        gate: what a neural drafter adds beside copies, and when it is worth its time.
        mask_gate: the same of masks, whose time is that of their rows.
        cost_file: where the cost curve is kept between runs.
    """

    target: TargetModel | None = None
    draft_model: TargetModel | None = None
    eagle_head: FittedHead | None = None
    hidden_layer: int | None = None
    induction_heads: tuple[tuple[int, int], ...] = ()
    acceptance: AcceptanceTables = field(default_factory=AcceptanceTables)
    cost: CostCurve = field(default_factory=CostCurve)
    gate: NeuralGate = field(default_factory=NeuralGate)
    mask_gate: NeuralGate = field(default_factory=NeuralGate)
    cost_file: Path | None = None

    @property
    def compared_layer(self) -> int | None:
        """The layer whose hidden states are compared; None where none is named and the target is unknown."""
        if self.hidden_layer is None and self.target is not None:
            return self.target.layers // 3
        return self.hidden_layer

    def memory(self) -> dict[str, int]:
        """Bytes that neural drafters take on the device, by what takes them; caches a token of an answer."""
        taken = {}
        if self.draft_model is not None:
            model = self.draft_model
            taken["draft_model"] = sum(weight.nbytes for weight in model.model.parameters())
            taken["draft_model_cache_per_token"] = model.new_cache(1).nbytes
        if self.eagle_head is not None:
            taken["eagle_head"] = self.eagle_head.nbytes
            taken["eagle_head_cache_per_token"] = self.eagle_head.new_cache(1).nbytes
        if self.target is not None and self.target.adapters is not None:
            taken["sdsat_adapters"] = self.target.adapters.nbytes
        return taken

    def save(self) -> None:
        """Keep what was learned while serving, where there are places for it."""
        self.acceptance.save()
        if self.cost_file is not None:
            self.cost.save(self.cost_file)
