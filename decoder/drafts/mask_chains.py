"""MaskChains: the adaptive rows of a pass and what each of them sees. Knows nodes and rows; knows no model.

A chain of masks follows a point of the tree, the root or a node. Mask i (0 is the first) is i + 1 positions after the
point, and its row predicts the token one position further. The adaptive rows follow all ordinary rows of the sequence,
chain by chain. The masks are the adaptive tokens of SDSAT (arXiv 2403.18647), section 2.1.
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
        points: the node or ROOT that each chain follows, each once.
        lengths: masks in each chain, at least one.

    Raises:
        ValueError: the points repeat, do not match the lengths, or a chain is empty.
    """

    points: tuple[int, ...] = ()
    lengths: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if len(self.points) != len(self.lengths) or len(set(self.points)) != len(self.points):
            raise ValueError(f"every chain needs its own point and a length, got {self.points}, {self.lengths}")
        if min(self.lengths, default=1) < 1:
            raise ValueError(f"a chain must have at least one mask, got lengths {self.lengths}")

    @classmethod
    def after(cls, points: Iterable[int], length: int) -> MaskChains:
        """Chains of the same length after each of the points."""
        points = tuple(points)
        return cls(points, (length,) * len(points))

    def __or__(self, other: MaskChains) -> MaskChains:
        """The chains of both. If both have a chain after the same point, the longer one."""
        lengths = dict(zip(self.points, self.lengths, strict=True))
        for point, length in zip(other.points, other.lengths, strict=True):
            lengths[point] = max(length, lengths.get(point, 0))
        return MaskChains(tuple(lengths), tuple(lengths.values()))

    def __len__(self) -> int:
        """The number of adaptive rows."""
        return sum(self.lengths)

    @property
    def numbers(self) -> list[int]:
        """The mask number of each row: its index in its chain, from 0."""
        return [number for length in self.lengths for number in range(length)]

    @property
    def point_rows(self) -> list[int]:
        """For each adaptive row, the ordinary row of its chain's point; the root is row 0."""
        return [point + 1 for point, length in zip(self.points, self.lengths, strict=True) for _ in range(length)]

    def depths(self, tree: DraftTree) -> list[int]:
        """The position of each adaptive row, relative to the root's."""
        return [
            (0 if point == ROOT else tree.depths[point]) + 1 + number
            for point, length in zip(self.points, self.lengths, strict=True)
            for number in range(length)
        ]

    def within(self, tree: DraftTree, most: int) -> MaskChains:
        """The chains, cut to positions at most `most` after the root's."""
        lengths = {
            point: min(length, most - (0 if point == ROOT else tree.depths[point]))
            for point, length in zip(self.points, self.lengths, strict=True)
        }
        lengths = {point: length for point, length in lengths.items() if length > 0}
        return MaskChains(tuple(lengths), tuple(lengths.values()))

    def mask(self, tree: DraftTree) -> NDArray[np.bool_]:
        """Attention mask over root, nodes and masks: bool [n + 1 + m, n + 1 + m], row sees column.

        Ordinary rows see what `DraftTree.mask` says and no adaptive row. A mask sees its point and what its point
        sees, the earlier masks of its own chain, and itself.
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
    """The states of one sequence's adaptive rows.

    Attributes:
        chains: the chains that the rows belong to.
        states: [m, D], after the final norm, conditioned on the chains' points (`Adapters.condition_on_points`).
    """

    chains: MaskChains = NO_MASKS
    states: torch.Tensor = field(default_factory=lambda: torch.empty(0, 0))

    def after(self, path: Sequence[int]) -> MaskRows | None:
        """The rows of the chain after the last node of an accepted path, or after the root if the path is empty."""
        point = path[-1] if path else ROOT
        if point not in self.chains.points:
            return None
        number = self.chains.points.index(point)
        start, length = sum(self.chains.lengths[:number]), self.chains.lengths[number]
        return MaskRows(MaskChains((ROOT,), (length,)), self.states[start : start + length])
