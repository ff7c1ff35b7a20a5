"""`plain`: no draft. One token a pass, nothing indexed, nothing observed: the path that speculation off runs."""

from __future__ import annotations

from typing import ClassVar

from decoder.drafters.base import Drafter
from decoder.drafts.tree import DraftTree
from decoder.sequence import Sequence


class PlainDrafter(Drafter):
    name: ClassVar[str] = "plain"

    def draft(self, sequence: Sequence, budget: int) -> DraftTree:
        return DraftTree()
