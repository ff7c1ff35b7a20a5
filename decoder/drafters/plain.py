"""`plain`: drafts nothing, so each pass yields one token. Requests without speculation use it."""

from __future__ import annotations

from typing import ClassVar

from decoder.drafters.base import Drafter
from decoder.drafts.tree import DraftTree
from decoder.sequence import Sequence


class PlainDrafter(Drafter):
    """Plain decoding."""

    name: ClassVar[str] = "plain"

    def draft(self, sequence: Sequence, budget: int) -> DraftTree:
        return DraftTree()
