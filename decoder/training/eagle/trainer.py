"""Trainer: trains an EAGLE head, one step at a time. Knows weights, batches and rates; knows no data, file or clock."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F

from decoder.heads.head import EagleHead
from decoder.model.target import TargetModel
from decoder.training.eagle.features import Example
from decoder.training.eagle.levels import Batch, levels
from decoder.training.eagle.score import Score, score
from decoder.training.frozen_head_loss import frozen_head_loss, sample_tokens
from decoder.training.muon import Muon

FEATURE_LOSS = 0.2
_WARM_UP, _FALL = 0.02, 0.33
"""Shares of a run during which the learning rate rises and falls."""


class Trainer:
    """A head in training, and the state that its checkpoint stores.

    Args:
        target: provides embeddings and output matrix.
        phases: levels of each phase.
        lr: peak learning rate.
        gain: factor by which embeddings are enlarged.
        optimizer: "adamw", or "muon" for matrices.
        sampled: unlikely tokens that a step's loss samples with `seed`; 0 for all.
    """

    def __init__(
        self,
        target: TargetModel,
        head: EagleHead,
        phases: Sequence[int],
        lr: float,
        gain: float = 1.0,
        *,
        optimizer: str = "adamw",
        sampled: int = 0,
        seed: int = 0,
    ) -> None:
        self.head = head
        self.gain = gain
        self.phases = tuple(phases)
        self._lr = lr
        device, dtype = target.device, head.fc.weight.dtype
        self._autocast = device.type == "cuda" and dtype == torch.float32
        product = torch.bfloat16 if self._autocast else dtype
        self.tokens = None if head.tokens is None else head.tokens.to(device)
        self.embeddings = (gain * target.model.get_input_embeddings().weight.detach().float()).to(product)
        matrix = target.model.get_output_embeddings().weight.detach()
        self.matrix = (matrix if self.tokens is None else matrix[self.tokens]).to(product)
        self._numbers = torch.arange(target.vocab_size, device=device)
        if self.tokens is not None:
            self._numbers = torch.full_like(self._numbers, -1)
            self._numbers[self.tokens] = torch.arange(len(self.tokens), device=device)
        matrices = [weight for weight in head.parameters() if optimizer == "muon" and weight.dim() == 2]
        rest = [weight for weight in head.parameters() if optimizer != "muon" or weight.dim() != 2]
        self.optimizers: list[torch.optim.Optimizer] = [Muon(matrices, lr)] if matrices else []
        if rest:
            self.optimizers.append(torch.optim.AdamW(rest, lr, betas=(0.9, 0.95), weight_decay=0.0))
        self._sampled = sampled if sampled < len(self.matrix) else 0
        self._seed = seed
        self.step = 0
        self.visit = 0
        self.batch = 0
        self.seconds = 0.0
        self.positions = 0

    def learn(self, examples: Sequence[Example], progress: float) -> tuple[float, list[float]]:
        """Train one step at `progress` from 0 to 1. Returns the loss and each level's share of right tokens."""
        # Phases take equal shares of a run.
        count = self.phases[min(int(progress * len(self.phases)), len(self.phases) - 1)]
        batch = Batch(examples, self.embeddings, self.matrix.device, self.head.fc.weight.dtype)
        loss, right = torch.zeros((), device=self.matrix.device), []
        with torch.autocast("cuda", torch.bfloat16, enabled=self._autocast):
            for level, states in enumerate(levels(self.head, batch, count)):
                continues = batch.continues(level)
                ids, chances = batch.labels(level)
                numbers = self._numbers[ids[continues]]
                chances = chances[continues] * (numbers >= 0)
                rows = states[continues]
                entropy, best = frozen_head_loss(rows, self.matrix, numbers.clamp(min=0), chances, self._sample())
                distance = F.smooth_l1_loss(rows.float(), batch.target_features(level)[continues].float())
                size = max(len(rows), 1)
                loss = loss + (entropy / size + FEATURE_LOSS * distance) / count
                best = best if self.tokens is None else self.tokens[best]
                right.append((best == batch.target_tokens(level)[continues]).sum() / size)
        for optimizer in self.optimizers:
            for group in optimizer.param_groups:
                group["lr"] = self._lr * rate(progress)
            optimizer.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]
        for optimizer in self.optimizers:
            optimizer.step()
        self.step += 1
        self.positions += len(batch)
        return float(loss.detach()), [float(share) for share in right]

    def _sample(self) -> torch.Tensor | None:
        """The unlikely tokens of this step's loss."""
        source = torch.Generator().manual_seed(1_000_003 * self._seed + self.step)
        return sample_tokens(self.matrix, self._sampled, source) if self._sampled else None

    def score(self, examples: Sequence[Example]) -> Score:
        return score(self.head, examples, self.embeddings.to(self.matrix.dtype), self.matrix, self.tokens)

    def finished(self) -> EagleHead:
        """A copy of the head that reads the target's embeddings as they are."""
        head = copy.deepcopy(self.head)
        with torch.no_grad():
            head.fc.weight[:, : head.size] *= self.gain
        return head

    def state(self) -> dict[str, Any]:
        """The state for `restore`."""
        return {
            "head": self.head.state_dict(),
            "tokens": self.head.tokens,
            "optimizers": [optimizer.state_dict() for optimizer in self.optimizers],
            "counts": (self.step, self.visit, self.batch, self.seconds, self.positions),
        }

    def restore(self, state: dict[str, Any]) -> None:
        self.head.load_state_dict(state["head"])
        for optimizer, optimizer_state in zip(self.optimizers, state["optimizers"], strict=True):
            optimizer.load_state_dict(optimizer_state)
        self.step, self.visit, self.batch, self.seconds, self.positions = state["counts"]


def rate(progress: float) -> float:
    """The learning rate as a share of its peak, from 0 to 1."""
    return min((progress + 1e-3) / _WARM_UP, 1.0, max(1.0 - progress, 0.0) / _FALL + 0.02)
