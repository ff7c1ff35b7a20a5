"""MaskChains: which adaptive rows a pass holds, and what each of them sees. Knows nodes and rows; knows no model.

A chain of masks hangs behind a point of the tree, the root or a node: mask i (0 is the first) sits i + 1 positions
behind the point, and its row tells what may come one position further. The rows come behind all ordinary rows of the
sequence, chain by chain.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.typing import NDArray

from decoder.drafts.tree import ROOT, DraftTree


@dataclass(frozen=True, slots=True)
class MaskChains:
    """Chains of masks.

    Attributes:
        points: what each chain hangs behind, nodes of the tree or ROOT, each once.
        lengths: masks of each chain, at least one.
    """

    points: tuple[int, ...] = ()
    lengths: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if len(self.points) != len(self.lengths) or len(set(self.points)) != len(self.points):
            raise ValueError(f"every chain needs a point of its own and a length, got {self.points}, {self.lengths}")
        if min(self.lengths, default=1) < 1:
            raise ValueError(f"a chain holds at least one mask, got lengths {self.lengths}")

    @classmethod
    def behind(cls, points: Iterable[int], length: int) -> MaskChains:
        """Chains of one length."""
        points = tuple(points)
        return cls(points, (length,) * len(points))

    def __or__(self, other: MaskChains) -> MaskChains:
        """The chains of both; the longer one where both have one behind the same point."""
        lengths = dict(zip(self.points, self.lengths, strict=True))
        for point, length in zip(other.points, other.lengths, strict=True):
            lengths[point] = max(length, lengths.get(point, 0))
        return MaskChains(tuple(lengths), tuple(lengths.values()))

    def __len__(self) -> int:
        """Adaptive rows."""
        return sum(self.lengths)

    @property
    def numbers(self) -> list[int]:
        """Each row's mask: its place in its chain, from 0."""
        return [number for length in self.lengths for number in range(length)]

    @property
    def point_rows(self) -> list[int]:
        """The row that each of them hangs behind, the root's being 0."""
        return [point + 1 for point, length in zip(self.points, self.lengths, strict=True) for _ in range(length)]

    def depths(self, tree: DraftTree) -> list[int]:
        """Each row's position behind the root's."""
        return [
            (0 if point == ROOT else tree.depths[point]) + 1 + number
            for point, length in zip(self.points, self.lengths, strict=True)
            for number in range(length)
        ]

    def rows_of(self, point: int) -> slice | None:
        """The rows of the chain behind a point, counted from the first adaptive row; None where there is none."""
        if point not in self.points:
            return None
        number = self.points.index(point)
        start = sum(self.lengths[:number])
        return slice(start, start + self.lengths[number])

    def within(self, tree: DraftTree, most: int) -> MaskChains:
        """Cut to positions at most `most` behind the root's."""
        cut = [
            (point, min(length, most - (0 if point == ROOT else tree.depths[point])))
            for point, length in zip(self.points, self.lengths, strict=True)
        ]
        kept = [(point, length) for point, length in cut if length > 0]
        return MaskChains(tuple(point for point, _ in kept), tuple(length for _, length in kept))

    def mask(self, tree: DraftTree) -> NDArray[np.bool_]:
        """Attention mask over root, nodes and masks: bool [n + 1 + m, n + 1 + m], row sees column.

        Ordinary rows as in `DraftTree.mask`, and no adaptive row; a mask sees what its point sees, the point, the
        earlier masks of its own chain, and itself.
        """
        ordinary, rows = len(tree) + 1, len(tree) + 1 + len(self)
        sees = np.zeros((rows, rows), np.bool_)
        sees[:ordinary, :ordinary] = tree.mask()
        start = ordinary
        for point, length in zip(self.points, self.lengths, strict=True):
            chain = slice(start, start + length)
            sees[chain, :ordinary] = sees[point + 1, :ordinary]
            sees[chain, chain] = np.tri(length, dtype=np.bool_)
            start += length
        return sees


NO_MASKS = MaskChains()


@dataclass(frozen=True, slots=True)
class MaskRows:
    """What the adaptive rows of one sequence came to.

    Attributes:
        chains: which rows they are.
        states: [m, D], behind the final norm: an output matrix makes logits of them.
    """

    chains: MaskChains = NO_MASKS
    states: torch.Tensor = field(default_factory=lambda: torch.empty(0, 0))

    def behind(self, path: Sequence[int]) -> MaskRows | None:
        """The rows of the chain behind the last node of an accepted path (the root where it is empty), if any."""
        point = path[-1] if path else ROOT
        rows = self.chains.rows_of(point)
        if rows is None:
            return None
        return MaskRows(MaskChains((ROOT,), (rows.stop - rows.start,)), self.states[rows])
