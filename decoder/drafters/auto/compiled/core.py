"""CompiledCore: `auto`'s lookups, trie and learning in machine code, with the readable core's results to the last bit.

Knows what the compiled functions need of a sequence, a table and a tree; the functions know only arrays.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from decoder.drafters.auto.compiled import lookup, merging
from decoder.drafters.auto.copies import NO_PLACE, Copies, Similarities
from decoder.drafters.auto.core import Core
from decoder.drafters.auto.guesses import MOST, Guesses
from decoder.drafters.auto.trie import Evidence, Trie
from decoder.drafters.best_tokens import best_tokens
from decoder.drafters.learning.acceptance import KINDS
from decoder.drafts.tree import DraftTree, TokenSource
from decoder.sequence import CORPUS_OFFSET, Sequence

_NO_TOKENS = np.empty(0, np.int32)
_NO_NUMBERS = np.empty(0, np.int64)
_NO_DRAFT = (_NO_NUMBERS, _NO_NUMBERS, np.empty(0), 0)


class CompiledCore(Core):
    """The compiled core."""

    def __init__(self, drafter: str, copies: Copies) -> None:
        super().__init__(drafter, copies)
        self._rows = np.empty((2 * copies.matches + 4 + MOST, lookup.COLUMNS), np.int64)
        self._count = 0
        self._similarities = np.empty(0)
        self._margins = np.empty(0)

    def find(self, sequence: Sequence, evidence: Evidence, least: float, similarities: Similarities | None) -> set[int]:
        if self.copies.begin(sequence):
            self._begin(sequence)
        copies, index = self.copies, sequence.index
        text = index.buffer, len(index), index.frozen_length, index.keys
        rows = self._rows = np.empty_like(self._rows)  # the last step's trie may still need its own
        cursor = NO_PLACE if copies.cursor is None else copies.cursor
        before_edited = NO_PLACE if copies.before_edited is None else copies.before_edited
        count = copied = lookup.copies(
            text, self._segments, self._corpus, cursor, before_edited, copies.matches, copies.longest, rows
        )
        first: set[int] = set(rows[:copied, lookup.FIRST].tolist())
        guesses, counts = evidence.guesses, evidence.table.arrays
        if guesses is not None:
            worth = merging.guesses_worth(counts, evidence.recent_acceptance, least)
            if worth:
                count = lookup.guesses(text, _best(guesses, worth + 1), worth, rows, copied)
        self._similarities = np.full(count, np.nan)
        if similarities is not None and copied:
            cosines = similarities(rows[:copied, lookup.POSITION].tolist())
            self._similarities[:copied] = np.array(cosines, np.float64)  # None becomes NaN
        self._count = count
        if guesses is None:
            self._margins = np.full(count, np.nan)
        else:
            self._margins = guesses.logit_margins(rows[:count, lookup.FIRST], evidence.last)
        return first

    def merge(self, sequence: Sequence, evidence: Evidence, *, nodes: int, depth: int, least: float) -> Trie:
        drafted, draft, table = evidence.draft_probabilities, _NO_DRAFT, evidence.table
        if drafted is not None:
            parents, tokens = np.array(drafted.tree.parents, np.int64), np.array(drafted.tree.tokens, np.int64)
            draft = parents, tokens, np.array(drafted.chances), drafted.proposal_type
        trie = CompiledTrie(evidence, self._rows[: self._count], nodes, len(draft[0]), self._ends)
        trie.count = merging.merge(
            (sequence.index.buffer, len(sequence.index), self._corpus[0]),
            trie.rows,
            (self._similarities, self._margins),
            draft,
            table.arrays,
            table.eos_prior.arrays,
            self._ends,
            evidence.last,
            evidence.recent_acceptance,
            depth,
            float(least),
            trie.arrays,
        )
        trie.tree = self._tree(trie, None if drafted is None else drafted.source)
        return trie

    def _begin(self, sequence: Sequence) -> None:
        lengths = [part.length for part in sequence.segments]
        kinds = [*self.copies.kinds, KINDS.index("answer")]
        self._segments = _starts(lengths), np.array(kinds, np.int64)
        corpora = [len(corpus.ids) for corpus in sequence.corpora]
        tokens, keys = _NO_TOKENS, np.empty(0, np.uint64)
        if corpora:
            tokens, keys = sequence.corpus_index.tokens, sequence.corpus_index.keys
        self._corpus = tokens, keys, _starts(corpora)[:-1], np.array(self.copies.corpus_kinds, np.int64)
        self._ends = np.array(sorted(sequence.end_tokens), np.int64)

    def _tree(self, trie: CompiledTrie, drafted: TokenSource | None) -> DraftTree:
        """The draft tree with its sources."""
        tokens, parents, depths, strongest, places = trie.nodes[:, : trie.count].tolist()
        starts, segments, corpus_starts = self._segments[0], len(self._segments[0]) - 1, self._corpus[2]
        at = trie.nodes[merging.PLACE, : trie.count]
        numbers = np.searchsorted(starts, at, side="right") - 1
        offsets = at - starts[numbers]
        if len(corpus_starts):
            behind = at >= CORPUS_OFFSET
            corpora = np.searchsorted(corpus_starts, at[behind] - CORPUS_OFFSET, side="right") - 1
            numbers[behind] = segments + 1 + corpora
            offsets[behind] = at[behind] - CORPUS_OFFSET - corpus_starts[corpora]
        name, unknown = self.drafter, TokenSource(self.drafter)
        sources = [
            TokenSource(name, None if segment == segments else segment - (segment > segments), offset)
            if place != NO_PLACE
            else (drafted or unknown)
            if row < 0
            else unknown
            for place, row, segment, offset in zip(places, strongest, numbers.tolist(), offsets.tolist(), strict=True)
        ]
        return DraftTree.of(tokens, parents, depths, sources, trie.values[: trie.count].tolist())


class CompiledTrie(Trie):
    """A trie in arrays, see `merging.Tree`."""

    def __init__(
        self, evidence: Evidence, rows: NDArray[np.int64], nodes: int, drafted: int, ends: NDArray[np.int64]
    ) -> None:
        super().__init__(evidence, DraftTree())
        self.rows = rows
        self.ends = ends
        self.count = 0
        most = len(rows) + drafted + nodes + 1  # of the children of all nodes: each divides its own candidates
        self.nodes = np.empty((5, nodes), np.int64)
        self.values = np.empty(nodes)
        spans, children, proofs = np.empty((nodes + 1, 2), np.int64), np.empty((most, 4), np.int64), np.empty((most, 3))
        self.arrays: merging.Tree = (self.nodes, self.values, spans, children, proofs)

    def _learn_children(self, tokens: list[int]) -> None:
        path, counts = np.array(tokens, np.int64), self.evidence.table.arrays
        merging.learn(path, self.ends, self.rows, counts, self.arrays, self.count)

    def strongest(self, node: int) -> tuple[int, int]:
        row = self.nodes[merging.STRONGEST, node]
        if row < 0:
            return NO_PLACE, 0
        return int(self.rows[row, lookup.POSITION]), int(self.rows[row, lookup.LENGTH])


def _starts(lengths: list[int]) -> NDArray[np.int64]:
    """Where each of several runs starts, and where the last one ends: int64 [n + 1]."""
    return np.cumsum([0, *lengths], dtype=np.int64)


def _best(guesses: Guesses, count: int) -> NDArray[np.int64]:
    if guesses.row is None:
        return np.array(best_tokens(guesses.logits, count), np.int64)
    return lookup.best(guesses.row, count)
