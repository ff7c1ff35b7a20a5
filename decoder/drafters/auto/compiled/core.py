"""CompiledCore: `auto`'s lookups, trie and learning in machine code, with the readable core's results to the last bit.

Knows what the compiled functions need of a sequence, a table and a tree; the functions know only arrays.
"""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray

from decoder.drafters.auto.compiled import lookup, merging
from decoder.drafters.auto.copies import NO_PLACE, Copies, Similarities
from decoder.drafters.auto.core import Core
from decoder.drafters.auto.guesses import MOST, Guesses
from decoder.drafters.auto.trie import Evidence, Trie
from decoder.drafters.learning.acceptance import KINDS, AcceptanceTable
from decoder.drafts.tree import DraftTree, TokenSource
from decoder.sampling.params import SamplingParams
from decoder.sequence import Sequence

_NO_TOKENS = np.empty(0, np.int32)
_NO_NUMBERS = np.empty(0, np.int64)
_NO_DRAFT = (_NO_NUMBERS, _NO_NUMBERS, np.empty(0), 0)


class CompiledCore(Core):
    """The compiled core."""

    def __init__(self, drafter: str, copies: Copies) -> None:
        super().__init__(drafter, copies)
        self._rows = np.empty((2 * copies.matches + 4 + MOST, lookup.COLUMNS), np.int64)
        self._unknown = np.full(len(self._rows), np.nan)
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
                count = lookup.guesses(text, lookup.best(guesses.row, worth + 1), worth, rows, copied)
        self._similarities = self._unknown[:count]
        if similarities is not None and copied:
            self._similarities = self._similarities.copy()
            cosines = similarities(rows[:copied, lookup.POSITION].tolist())
            self._similarities[:copied] = np.array(cosines, np.float64)  # None becomes NaN
        self._count = count
        if guesses is None:
            self._margins = self._unknown[:count]
        else:
            self._margins = guesses.logit_margins(rows[:count, lookup.FIRST], evidence.last)
        return first

    def merge(self, sequence: Sequence, evidence: Evidence, *, nodes: int, depth: int, least: float) -> Trie:
        drafted, draft, table = evidence.draft_probabilities, _NO_DRAFT, evidence.table
        if drafted is not None:
            parents, tokens = np.array(drafted.tree.parents, np.int64), np.array(drafted.tree.tokens, np.int64)
            draft = parents, tokens, np.array(drafted.chances), drafted.proposal_type
        rows = self._rows[: self._count]
        most = len(rows) + len(draft[0]) + nodes + 1  # of the children of all nodes: each divides its own candidates
        arrays: merging.Tree = (
            np.empty((6, nodes), np.int64),
            np.empty(nodes),
            np.empty((nodes + 1, 2), np.int64),
            np.empty((most, 4), np.int64),
            np.empty((most, 3)),
        )
        count = merging.merge(
            (sequence.index.buffer, len(sequence.index), self._segments[0], self._corpus[0], self._corpus[2]),
            rows,
            (self._similarities, self._margins),
            draft,
            table.arrays,
            table.eos_prior.arrays,
            self._ends,
            evidence.last,
            evidence.recent_acceptance,
            depth,
            float(least),
            arrays,
        )
        tokens, parents, depths, strongest, segments, offsets = arrays[0][:, :count].tolist()
        name, own = self.drafter, TokenSource(self.drafter)
        drafted_source = own if drafted is None else drafted.source or own
        sources = [
            TokenSource(name, segment if segment >= 0 else None, offset)
            if offset >= 0
            else own
            if row >= 0
            else drafted_source
            for row, segment, offset in zip(strongest, segments, offsets, strict=True)
        ]
        tree = DraftTree.of(tokens, parents, depths, sources, arrays[1][:count].tolist())
        return CompiledTrie(evidence, tree, rows, arrays, self._ends)

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


class CompiledTrie(Trie):
    """A trie in arrays, see `merging.Tree`."""

    def __init__(
        self,
        evidence: Evidence,
        tree: DraftTree,
        rows: NDArray[np.int64],
        arrays: merging.Tree,
        ends: NDArray[np.int64],
    ) -> None:
        super().__init__(evidence, tree)
        self._rows = rows
        self._arrays = arrays
        self._ends = ends

    def _learn_children(self, tokens: list[int]) -> None:
        path, counts = np.array(tokens, np.int64), self.evidence.table.arrays
        merging.learn(path, self._ends, self._rows, counts, self._arrays, len(self.tree))

    def strongest(self, node: int) -> tuple[int, int]:
        row = self._arrays[0][merging.STRONGEST, node]
        if row < 0:
            return NO_PLACE, 0
        return int(self._rows[row, lookup.POSITION]), int(self._rows[row, lookup.LENGTH])


def warm_up() -> None:
    """Load or compile the machine code, so that no answer waits for it."""
    sequence = Sequence([1, 2, 1, 2], SamplingParams(max_tokens=8), (), None, frozenset({0}))
    evidence = Evidence(AcceptanceTable(), 0, 2, sequence.end_tokens, Guesses(torch.arange(8.0)))
    core = CompiledCore("", Copies())
    core.find(sequence, evidence, 0.0, None)
    core.merge(sequence, evidence, nodes=8, depth=4, least=0.0).learn([1])


def _starts(lengths: list[int]) -> NDArray[np.int64]:
    """Where each of several runs starts, and where the last one ends: int64 [n + 1]."""
    return np.cumsum([0, *lengths], dtype=np.int64)
