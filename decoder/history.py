"""Which tokens a sequence holds so far, counted as the logit penalties need them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable


class History:
    """Token counts over the answer, and the set of tokens over prompt and answer.

    Kept for every sequence; `push` is O(1). The prompt's set is built when a penalty first asks for it.
    """

    __slots__ = ("_prompt", "_seen", "counts")

    def __init__(self, prompt: Iterable[int]) -> None:
        self._prompt = prompt
        self._seen: set[int] | None = None
        self.counts: Counter[int] = Counter()

    @property
    def seen(self) -> set[int]:
        """Token ids that occur in the prompt or the answer."""
        if self._seen is None:
            self._seen = set(self._prompt) | set(self.counts)
        return self._seen

    def copy(self) -> History:
        """A history of its own with the same tokens, for looking ahead; O(answer), O(prompt) where `seen` was built."""
        copied = History(self._prompt)
        copied._seen = None if self._seen is None else set(self._seen)
        copied.counts = self.counts.copy()
        return copied

    def push(self, token: int) -> None:
        self.counts[token] += 1
        if self._seen is not None:
            self._seen.add(token)
