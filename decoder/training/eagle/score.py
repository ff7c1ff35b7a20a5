"""How well a head drafts on answers held aside.

Fed the answer's own tokens, level j says what a chain's j-th draft would be if all before it were right, which is the
only case in which it counts. So one pass tells every chain at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from decoder.heads.head import EagleHead
from decoder.training.eagle.features import Example
from decoder.training.eagle.levels import Batch, levels

DEPTH = 6
_POSITIONS = 2048


@dataclass(frozen=True, slots=True)
class Score:
    """Of chains drafted at every position of some answers.

    Attributes:
        positions: chains that were tried.
        acceptance: by depth from 1, the share of first d tokens that are right among chains with d - 1 right ones.
        mat: (tokens - 1) by passes, where each pass verifies a chain of DEPTH tokens.
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
        embeddings: [V, D], the target's; matrix: [draft vocabulary, D], its output matrix's rows.
        tokens: int64 [draft vocabulary], which tokens they are; None for all.
    """
    tried, right = [0] * DEPTH, [0] * DEPTH
    passes = committed = positions = 0
    for part in _parts(examples):
        batch = Batch(part, embeddings, matrix.device, head.fc.weight.dtype)
        good = torch.zeros(len(batch), DEPTH, dtype=torch.bool)
        there = torch.stack([batch.there(level) for level in range(DEPTH)], dim=1).cpu()
        for level, states in enumerate(levels(head, batch, DEPTH)):
            best = torch.cat([(rows.to(matrix.dtype) @ matrix.T).argmax(-1) for rows in torch.split(states, 512)])
            best = best if tokens is None else tokens[best]
            good[:, level] = (best == batch.wanted(level)).cpu() & there[:, level]
        alive = torch.ones(len(batch), dtype=torch.bool)
        accepted = torch.zeros(len(batch), dtype=torch.long)
        for depth in range(DEPTH):
            asked = alive & there[:, depth]
            tried[depth] += int(asked.sum())
            alive = alive & good[:, depth]
            right[depth] += int(alive.sum())
            accepted += alive
        start = 0
        for count in batch.counts:
            chains, at = accepted[start : start + count].tolist(), 0
            while at < count:
                passes, at = passes + 1, at + chains[at] + 1
            committed += count
            start += count
        positions += len(batch)
    shares = tuple(r / t if t else 0.0 for r, t in zip(right, tried, strict=True))
    return Score(positions, shares, committed / max(passes, 1))


def _parts(examples: Sequence[Example]) -> list[list[Example]]:
    parts: list[list[Example]] = [[]]
    for example in examples:
        if parts[-1] and sum(e.positions for e in parts[-1]) + example.positions > _POSITIONS:
            parts.append([])
        parts[-1].append(example)
    return parts
