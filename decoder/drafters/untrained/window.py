"""Window: the guesses of coming tokens that Jacobi iterations refine. Knows tokens and trees; knows no model.

The 2D window of lookahead decoding (arXiv 2402.02057), section 3.1. Column i of level l guesses the token i + l
positions after the last token, which is column 0 of level 0. A guess sees level 0 up to its own column and the earlier
levels of its column, so the window is a tree: level 0 is a chain, and each column hangs below its token of level 0. The
window grows by a level a step up to N - 1; from then on each step drops the oldest level.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from decoder.drafts.tree import ROOT, DraftTree, TokenSource


class Window:
    """One answer's window.

    Args:
        levels: N - 1, most levels.
        guess: makes a token where none is known.
    """

    def __init__(self, levels: int, guess: Callable[[], int]) -> None:
        self._most = levels
        self._guess = guess
        self._levels: list[list[int]] = [[]]

    @property
    def levels(self) -> int:
        """Levels so far."""
        return len(self._levels)

    @property
    def full(self) -> bool:
        """Whether its columns, with the tokens chosen after them, are n-grams."""
        return len(self._levels) == self._most

    def fit(self, last: int, columns: int) -> None:
        """Cut or fill it to a number of columns, at least 1, behind the last token."""
        for level in self._levels:
            del level[columns:]
            level += [self._guess() for _ in range(columns - len(level))]
        self._levels[0][0] = last

    def add_to(self, tree: DraftTree, source: TokenSource) -> None:
        """Add its nodes: columns * levels - 1, less those that the tree has already."""
        point = ROOT
        for column, token in enumerate(self._levels[0]):
            point = tree.add(token, point, source) if column else ROOT
            tree.add_chain([level[column] for level in self._levels[1:]], [source] * (self.levels - 1), point)

    def rows(self, tree: DraftTree) -> list[int]:
        """The row of the last level's guess in each column, up to the first column that the verified tree lacks.

        Row 0 is the root's, row i + 1 that of node i.
        """
        found: list[int] = []
        point: int | None = ROOT
        for column, token in enumerate(self._levels[0]):
            if column and point is not None:
                point = tree.child(point, token)
            node = point
            for level in self._levels[1:]:
                node = None if node is None else tree.child(node, level[column])
            if point is None or node is None:
                break
            found.append(node + 1)
        return found

    def ngrams(self, chosen: Sequence[int]) -> list[list[int]]:
        """The N-grams of the columns. Only a full window has some.

        Args:
            chosen: the token after the last level's guess, for each of the first columns.
        """
        return [[*(level[column] for level in self._levels), token] for column, token in enumerate(chosen)]

    def advance(self, chosen: Sequence[int]) -> None:
        """Take the chosen tokens as the newest level, and drop the oldest one of a full window.

        Args:
            chosen: as for `ngrams`. Columns without one are dropped.
        """
        full = self.full
        levels = [level[: len(chosen)] for level in self._levels] + [list(chosen)]
        self._levels = levels[1:] if full else [level[1:] for level in levels]
