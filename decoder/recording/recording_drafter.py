"""RecordingDrafter: wraps any drafter and saves the rows that chose the answer's tokens."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

import numpy as np
import torch

from decoder.drafters import Drafter
from decoder.drafters.context import DrafterContext
from decoder.drafts.accepted import Accepted
from decoder.drafts.mask_chains import MaskChains
from decoder.drafts.tree import DraftTree
from decoder.model.forward_outputs import ForwardOutputs, RequiredOutputs
from decoder.recording.pass_archive import BEST, PassArchive
from decoder.sequence import Sequence

_LARGEST = float(np.finfo(np.float16).max)


class RecordingDrafter(Drafter):
    """Drafts as the wrapped drafter does and saves outputs of the passes.

    Args:
        drafter: the wrapped drafter.
        logits: save the best logits of every row that chose a token.
        layers: decoder layers whose hidden states are saved.
    """

    name: ClassVar[str] = "recording"

    def __init__(self, drafter: Drafter, *, logits: bool, layers: frozenset[int]) -> None:
        self._drafter = drafter
        self._save_logits = logits
        self._layers = layers
        self._tokens = 0
        self._vocab_size = 0
        self._best: list[tuple[torch.Tensor, torch.Tensor]] = []
        self._hidden: dict[int, list[torch.Tensor]] = {layer: [] for layer in sorted(layers)}

    def setup(self, context: DrafterContext) -> None:
        self._drafter.setup(context)
        own = RequiredOutputs(hidden=self._layers, all_logits=self._save_logits)
        self.required_outputs = self._drafter.required_outputs | own

    def draft(self, sequence: Sequence, budget: int) -> DraftTree:
        return self._drafter.draft(sequence, budget)

    def masks(self, sequence: Sequence, tree: DraftTree) -> MaskChains:
        return self._drafter.masks(sequence, tree)

    def observe(self, sequence: Sequence, tree: DraftTree, accepted: Accepted, outputs: ForwardOutputs) -> None:
        logits = outputs.logits
        committed = len(sequence.tokens) - self._tokens
        rows = committed if self._tokens else len(sequence.prompt)  # a prefill has the prompt's rows
        self._tokens = len(sequence.tokens)
        self._vocab_size = logits.shape[-1]
        if self._save_logits:
            values, ids = logits[:committed].float().topk(min(BEST, self._vocab_size))
            self._best.append((ids.cpu(), values.cpu()))
        for layer, parts in self._hidden.items():
            states = outputs.hidden[layer][:rows]
            parts.append(states.clamp(-_LARGEST, _LARGEST).to("cpu", torch.float16))
        self._drafter.observe(sequence, tree, accepted, replace(outputs, logits=logits[-1:]))

    def archive(self) -> PassArchive:
        """Everything saved so far."""
        ids = values = None
        if self._save_logits:
            ids = torch.cat([ids for ids, _ in self._best]).numpy().astype(np.int32)
            values = torch.cat([values for _, values in self._best]).numpy()
        hidden = {layer: torch.cat(parts).numpy() for layer, parts in self._hidden.items()}
        return PassArchive(ids, values, self._vocab_size, hidden)
