"""`lookahead`: lookahead decoding (arXiv 2402.02057), section 3.

Each pass has two branches. The lookahead branch holds a window of guesses (`window`), whose choices are guesses of the
next step and whose columns become n-grams; the verification branch holds the n-grams that begin with the last token
(`ngram_pool`). Window and pool are those of one answer.

Both branches are one draft tree, since the window's attention pattern is a tree's. A guess of the window that happens
to be right is therefore accepted like a draft token, which the paper does not do. As in the authors' code, the window
begins with random tokens of the prompt, its choices are greedy for sampled answers too, and it moves by one column a
step however many tokens were accepted. At most half of the budget goes to the window (W = G in the paper), so the
default budget of 64 nodes holds W = G = 8.
"""

from __future__ import annotations

import random
from typing import ClassVar

from decoder.drafters.base import Drafter
from decoder.drafters.untrained.ngram_pool import NgramPool
from decoder.drafters.untrained.window import Window
from decoder.drafts.accepted import Accepted
from decoder.drafts.tree import DraftTree, TokenSource
from decoder.model.forward_outputs import ForwardOutputs, RequiredOutputs
from decoder.sampling.greedy import greedy
from decoder.sequence import Sequence


class LookaheadDrafter(Drafter):
    """Drafts n-grams that the model itself generated beside the answer.

    The defaults are the paper's for 7B models.

    Args:
        window: W, most columns of the window.
        ngram: N, tokens of an n-gram.
        guesses: G, most n-grams of a step.

    Raises:
        ValueError: window or guesses is below 1, or ngram below 2.
    """

    name: ClassVar[str] = "lookahead"

    def __init__(self, window: int = 15, ngram: int = 5, guesses: int = 15) -> None:
        if window < 1 or guesses < 1 or ngram < 2:
            raise ValueError(
                f"window and guesses must be at least 1 and ngram at least 2, got {window}, {guesses} and {ngram}"
            )
        self.columns = window
        self.ngram = ngram
        self.required_outputs = RequiredOutputs(tree_logits=True)
        self._pool = NgramPool(guesses)
        self._window: Window | None = None
        self._in_pass = False
        """Whether the running step's tree holds the window."""
        self._source = TokenSource(self.name)

    def draft(self, sequence: Sequence, budget: int) -> DraftTree:
        if self._window is None:
            source = random.Random(0)
            self._window = Window(self.ngram - 1, lambda: source.choice(sequence.prompt))
        window, tree = self._window, DraftTree()
        levels = window.levels
        # Filling it costs a column a level. No node is as deep as `remaining`: a pass yields one token more.
        columns = min(
            self.columns + self.ngram - 1 - levels, (budget // 2 + 1) // levels, sequence.remaining - levels + 1
        )
        self._in_pass = columns > 0
        most = budget - (columns * levels - 1 if self._in_pass else 0)
        depth = min(self.ngram - 1, sequence.remaining - 1)
        for tokens in self._pool.after(sequence.last_token):
            if len(tree) + depth > most:
                break
            tree.add_chain(tokens[:depth], [self._source] * depth)
        if self._in_pass:
            window.fit(sequence.last_token, columns)
            window.add_to(tree, self._source)
        return tree

    def observe(self, sequence: Sequence, tree: DraftTree, accepted: Accepted, outputs: ForwardOutputs) -> None:
        window, logits = self._window, outputs.tree_logits
        if window is None or logits is None or not self._in_pass:
            return
        self._in_pass = False
        rows = window.rows(tree)
        if not rows:
            return
        chosen: list[int] = greedy(logits[rows]).tolist()
        if window.full:
            for first, *rest in window.ngrams(chosen):
                self._pool.add(first, rest)
        window.advance(chosen)
