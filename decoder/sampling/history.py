"""Which tokens a sequence holds so far, as `select` needs to know: counted for penalties, followed by a grammar."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from decoder.sampling.grammar import GrammarState


class History:
    """Token counts over the answer, and the set of tokens over prompt and answer.

    Kept for every sequence; `push` is O(1). The prompt's set is built when a penalty first asks for it.

    Attributes:
        grammar: where the answer stands in its grammar; None where it has none.
        complete_after: how many tokens of the answer completed the grammar; None as long as it is not complete.
    """

    __slots__ = ("_prompt", "_seen", "complete_after", "counts", "grammar")

    def __init__(self, prompt: Iterable[int], grammar: GrammarState | None = None) -> None:
        self._prompt = prompt
        self.grammar = grammar
        self.complete_after: int | None = None
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
        copied = History(self._prompt, None if self.grammar is None else self.grammar.copy())
        copied.complete_after = self.complete_after
        copied._seen = None if self._seen is None else set(self._seen)
        copied.counts = self.counts.copy()
        return copied

    def push(self, token: int) -> None:
        self.counts[token] += 1
        if self._seen is not None:
            self._seen.add(token)
        if self.grammar is not None and self.complete_after is None:
            self.grammar.push(token)
            if self.grammar.complete:
                self.complete_after = self.counts.total()
