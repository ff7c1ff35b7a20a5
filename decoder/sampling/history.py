"""History: the tokens so far as `select` reads them, counted for penalties and followed by a grammar."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from decoder.sampling.grammar import GrammarState


class History:
    """Token counts of the answer, and the tokens that prompt and answer have.

    Every sequence has one; `push` is O(1). `seen` is built when a penalty first reads it.

    Args:
        prompt: the prompt's token ids.
        grammar: state of the answer's grammar; None if it has none.

    Attributes:
        grammar: as above; advanced by `push`.
        complete_after: the number of answer tokens that completed the grammar; None while it is incomplete.
        counts: token id -> occurrences in the answer.
        tokens: the answer's tokens.
    """

    __slots__ = ("_prompt", "_seen", "complete_after", "counts", "grammar", "tokens")

    def __init__(self, prompt: Iterable[int], grammar: GrammarState | None = None) -> None:
        self._prompt = prompt
        self.grammar = grammar
        self.complete_after: int | None = None
        self._seen: NDArray[np.bool_] | None = None
        self.counts: Counter[int] = Counter()
        self.tokens: list[int] = []

    def seen(self, vocab: int) -> NDArray[np.bool_]:
        """Whether each token id below `vocab` is in the prompt or the answer: bool [vocab], not to be written to."""
        if self._seen is None or len(self._seen) < vocab:
            self._seen = np.zeros(vocab, np.bool_)
            for tokens in (self._prompt, self.counts):
                ids = np.fromiter(tokens, np.int64)
                self._seen[ids[ids < vocab]] = True
        return self._seen[:vocab]

    def copy(self) -> History:
        """An independent history of the same tokens, for looking ahead: O(answer + vocabulary if `seen` is built)."""
        copied = History(self._prompt, None if self.grammar is None else self.grammar.copy())
        copied.complete_after = self.complete_after
        copied._seen = None if self._seen is None else self._seen.copy()
        copied.counts = self.counts.copy()
        copied.tokens = self.tokens.copy()
        return copied

    def push(self, token: int) -> None:
        """Add the answer's next token."""
        self.counts[token] += 1
        self.tokens.append(token)
        if self._seen is not None and token < len(self._seen):
            self._seen[token] = True
        if self.grammar is not None and self.complete_after is None:
            self.grammar.push(token)
            if self.grammar.complete:
                self.complete_after = len(self.tokens)
