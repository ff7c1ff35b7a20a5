"""NextTokens: what a target favours after one or two tokens, with chances: from shipped texts at first, then from every
row of its passes. Token Recycling's matrix (arXiv 2408.08696, section 3.1) with chances, pairs and a start.

One table serves all answers of a domain. A service names a domain by tenant and collection, so no draft of one tenant
depends on another's text. All domains share the shipped entries, which nothing changes.

Knows token ids; knows no model and no tree.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from functools import cache

import numpy as np

from decoder.drafters.learning.next_token_tables import BEST, Entries, Floats, Keys, grow, learn_rows

SLOTS = 1 << 15
"""Contexts that a domain learns; one more replaces one of few rows. They take 4 MB."""
MOST_DOMAINS = 16
"""Domains whose tables are kept."""
NOT_BEFORE = -1
"""In place of the token before a text's first."""


def entries(size: int) -> Entries:
    """Empty ones: keys int64 [size], tokens int32 [size, BEST], chances float64 [size, BEST], rows float64 [size]."""
    tokens = np.full((size, BEST), -1, np.int32)
    return np.full(size, -1, np.int64), tokens, np.zeros((size, BEST)), np.zeros(size)


class NextTokens:
    """One domain's table.

    Args:
        shipped: what it starts from; None starts empty.
        slots: contexts that it learns.
    """

    def __init__(self, shipped: Entries | None = None, slots: int = SLOTS) -> None:
        self._shipped = entries(0) if shipped is None else shipped
        self._learned = entries(slots)

    def likeliest(
        self, before: int, token: int, nodes: int, depth: int, least: float
    ) -> tuple[list[int], list[int], list[float]]:
        """The likeliest texts after two tokens, as a tree.

        Args:
            before, token: the text's last two tokens; `before` may be NOT_BEFORE.
            nodes, depth: most nodes and levels.
            least: chance below which a node is left out.

        Returns:
            (parents, -1 for the root, tokens, chances from the root), in falling order of chance.
        """
        tree = np.empty(nodes, np.int64), np.empty(nodes, np.int64), np.empty(nodes)
        count = grow(self._learned, self._shipped, before, token, depth, least, tree)
        parents, tokens, chances = tree
        return parents[:count].tolist(), tokens[:count].tolist(), chances[:count].tolist()

    def learn(self, before: Sequence[int], after: Sequence[int], tokens: Keys, logits: Floats) -> None:
        """Learn rows of a pass.

        Args:
            before, after: n ids each, the last two tokens before what each row predicts.
            tokens, logits: int64 and float64 [n, k], the k likeliest tokens of each row, the likeliest first.
        """
        contexts = np.array(before, np.int64), np.array(after, np.int64)
        learn_rows(self._learned, self._shipped, *contexts, tokens, logits)


class NextTokensByDomain:
    """The tables of the domains that were used last.

    Args:
        shipped: gives what each starts from, or None; called once, at the first use.
    """

    def __init__(self, shipped: Callable[[], Entries | None] = lambda: None) -> None:
        self._shipped = cache(shipped)
        self._tables: OrderedDict[str, NextTokens] = OrderedDict()

    def prepare(self) -> None:
        """Get what tables start from, and the machine code, now, so that no answer waits for them."""
        table = NextTokens(self._shipped(), slots=8)
        table.learn([0], [0], np.zeros((1, 1), np.int64), np.zeros((1, 1)))
        table.likeliest(0, 0, 1, 1, 0.0)

    def of(self, domain: str) -> NextTokens:
        """A domain's table."""
        table = self._tables.pop(domain, None) or NextTokens(self._shipped())
        self._tables[domain] = table
        if len(self._tables) > MOST_DOMAINS:
            self._tables.popitem(last=False)
        return table
