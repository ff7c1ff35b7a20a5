"""Core: the part of `auto` that takes its time, from the lookups to the trie. Two do the same, digit for digit: this
readable one and the compiled one (`compiled/core.py`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod

from decoder.drafters.auto.copies import GUESS, NO_PLACE, Candidate, Copies, Similarities
from decoder.drafters.auto.trie import Evidence, Trie, merge_candidates
from decoder.drafts.tree import TokenSource
from decoder.sequence import Sequence


class Core(ABC):
    """Candidates of one answer's steps, and their tries.

    Args:
        drafter: the name that the sources of tokens have.
        copies: keeps the cursor.
    """

    def __init__(self, drafter: str, copies: Copies) -> None:
        self.drafter = drafter
        self.copies = copies

    @abstractmethod
    def find(self, sequence: Sequence, evidence: Evidence, least: float, similarities: Similarities | None) -> set[int]:
        """Find the step's candidates, and keep them for `merge`. Returns the first tokens of copies.

        Args:
            evidence: its `guesses`, if any, are candidates, too.
            least: chance below which a guess is not worth its row.
            similarities: as for `Copies.candidates`.
        """

    @abstractmethod
    def merge(self, sequence: Sequence, evidence: Evidence, *, nodes: int, depth: int, least: float) -> Trie:
        """The candidates that `find` found, merged; arguments as `merge_candidates`."""


class ReadableCore(Core):
    """The reference."""

    def __init__(self, drafter: str, copies: Copies) -> None:
        super().__init__(drafter, copies)
        self._candidates: list[Candidate] = []

    def find(self, sequence: Sequence, evidence: Evidence, least: float, similarities: Similarities | None) -> set[int]:
        self._candidates = self.copies.candidates(sequence, similarities)
        first = {candidate.tokens[0] for candidate in self._candidates}
        if evidence.guesses is not None:
            self._candidates += evidence.guesses.candidates(
                sequence, evidence.table, evidence.recent_acceptance, least, first
            )
        return first

    def merge(self, sequence: Sequence, evidence: Evidence, *, nodes: int, depth: int, least: float) -> Trie:
        drafted = evidence.draft_probabilities

        def source_of(candidate: Candidate, at: int) -> TokenSource:
            if drafted is not None and drafted.source is not None and candidate.proposal_type == drafted.proposal_type:
                return drafted.source
            if candidate.position == NO_PLACE or (candidate.proposal_type == GUESS and at == 0):
                return TokenSource(self.drafter)
            return sequence.copy_of(self.drafter, candidate.position + at)

        return merge_candidates(self._candidates, evidence, source_of, nodes=nodes, depth=depth, least=least)
