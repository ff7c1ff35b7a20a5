"""How well a head drafts on held-out answers.

A head that is fed the answer's own tokens predicts at level j what a chain's j-th draft would be if all earlier drafts
were right, which is the only case in which it counts. So one pass scores the chains of all positions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from decoder.heads.head import EagleHead
from decoder.training.answers import grouped
from decoder.training.eagle.features import Example
from decoder.training.eagle.levels import Batch, levels

DEPTH = 6
_POSITIONS = 2048


@dataclass(frozen=True, slots=True)
class Score:
    """Of chains drafted at every position of some answers. The fields are those of the learning curve.

    Attributes:
        positions: number of chains.
        acceptance: by depth d from 1, the share of chains whose d-th token is right among those with d - 1 right ones.
        mat: (tokens - 1) by passes, if each pass verifies a chain of DEPTH tokens.
    """

    positions: int
    acceptance: tuple[float, ...]
    mat: float


@torch.inference_mode()
def score(
    head: EagleHead,
    examples: Sequence[Example],
    embeddings: torch.Tensor,
    matrix: torch.Tensor,
    tokens: torch.Tensor | None,
) -> Score:
    """Score a head.

    Args:
        embeddings: [V, D], the target's.
        matrix: [draft vocabulary, D], rows of the target's output matrix.
        tokens: int64 [draft vocabulary], their token ids; None for all.
    """
    tried, right = [0] * DEPTH, [0] * DEPTH
    passes = positions = 0
    for part in grouped(examples, lambda example: example.positions, _POSITIONS):
        batch = Batch(part, embeddings, matrix.device, head.fc.weight.dtype)
        correct = torch.zeros(len(batch), DEPTH, dtype=torch.bool)
        continues = torch.stack([batch.continues(level) for level in range(DEPTH)], dim=1).cpu()
        for level, states in enumerate(levels(head, batch, DEPTH)):
            best = torch.cat([(rows.to(matrix.dtype) @ matrix.T).argmax(-1) for rows in torch.split(states, 512)])
            best = best if tokens is None else tokens[best]
            correct[:, level] = (best == batch.target_tokens(level)).cpu() & continues[:, level]
        alive = torch.ones(len(batch), dtype=torch.bool)
        accepted = torch.zeros(len(batch), dtype=torch.long)
        for depth in range(DEPTH):
            tried[depth] += int((alive & continues[:, depth]).sum())
            alive = alive & correct[:, depth]
            right[depth] += int(alive.sum())
            accepted += alive
        for chains in torch.split(accepted, batch.counts):
            lengths, position = chains.tolist(), 0
            while position < len(lengths):
                passes, position = passes + 1, position + lengths[position] + 1
        positions += len(batch)
    shares = tuple(r / t if t else 0.0 for r, t in zip(right, tried, strict=True))
    return Score(positions, shares, positions / max(passes, 1))
