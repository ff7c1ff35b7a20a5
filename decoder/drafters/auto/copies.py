"""Copies: positions to copy the next tokens from, by n-gram matches and by the cursor of the last copied run.

The cursor is the position after the last copied token. If a draft is rejected there, the run may continue at once (a
token was inserted), after one token (it was replaced) or after two, long before an n-gram matches again; most edits
are of this kind. Before the first token, the cursor is at the start of a text under edit or a prediction. The token
before a text under edit, most often a line break, is a candidate too: an answer that opens a fence continues with it.

Knows a sequence's index and corpora; knows no probabilities and no tree.
"""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Sequence as Ids
from typing import NamedTuple

from decoder.drafters.learning.acceptance import KINDS, PROPOSAL_TYPES
from decoder.sequence import CORPUS_OFFSET, Sequence

MATCH, NEAR, RESUME, NEURAL = (PROPOSAL_TYPES.index(name) for name in ("match", "near", "resume", "neural"))
GUESS, HEAD, MASKS, RECYCLED = (PROPOSAL_TYPES.index(name) for name in ("guess", "head", "masks", "recycled"))
_ANSWER = KINDS.index("answer")
_KIND_OF = {
    "passage": "passage",
    "answer": "conversation",
    "edited": "edited",
    "prediction": "edited",
    "unread": "unread",
    "store": "store",
}

NO_PLACE = -1
"""Position of a candidate that is no copy."""
LONGEST_MATCH = 32
NEAR_TOKENS = 32
"""A match at most this many tokens after the cursor counts as the run's continuation."""
_SHORTEST_RUN = 4
"""Least tokens of a copied run that moves the cursor."""
_PATIENCE = 16
"""Tokens without a copy after which the cursor is dropped."""
NEAR_BONUS = 6.0
RESUME_STRENGTH = 3.5
BEFORE_EDITED_STRENGTH = 3.0


Similarities = Callable[[Ids[int]], list[float | None]]


class Candidate(NamedTuple):
    """One position to copy from.

    Attributes:
        tokens: the tokens there.
        position: of tokens[0], see `Sequence.copy_of`.
        length: tokens before it that equal the last tokens of the text.
        proposal_type, kind: indices into PROPOSAL_TYPES and KINDS.
        similarity: cosine of the model's states there and at the end of the text; None if unknown.
        rank: of a guess, among the last logits, from 0; its `length` counts the matches before tokens[1], less 1.
    """

    tokens: list[int]
    position: int
    length: int
    proposal_type: int
    kind: int
    similarity: float | None = None
    rank: int = 0


class Copies:
    """Finds candidates for one sequence and keeps the cursor.

    Args:
        matches: most n-gram matches a step.
        longest: most tokens of a candidate.

    Attributes:
        cursor: position after the last copied token; None if there is none.
        before_edited: position of the token before a text under edit, until the first copy.
        kinds, corpus_kinds: of the sequence's segments and corpora, indices into KINDS.
    """

    def __init__(self, matches: int = 24, longest: int = 64) -> None:
        self.matches = matches
        self.longest = longest
        self.cursor: int | None = None
        self._gap = 0
        self.before_edited: int | None = None
        self.kinds: list[int] = []
        self.corpus_kinds: list[int] = []
        self._sequence: Sequence | None = None

    def candidates(self, sequence: Sequence, similarities: Similarities | None = None) -> list[Candidate]:
        """Candidates for the next tokens, the strongest first; each has at least one token.

        Args:
            similarities: positions -> cosines of the model's states there and at the end of the text.
        """
        self.begin(sequence)
        cursor = self.cursor
        proposals: list[tuple[float, int, int, int]] = []  # (strength, position, length, proposal type)
        suffix = sequence.suffix(LONGEST_MATCH)
        matches = [(m.position, m.length) for m in sequence.index.matches(suffix, self.matches, LONGEST_MATCH)]
        if sequence.corpora:
            in_corpora = sequence.corpus_index.matches(suffix, self.matches, LONGEST_MATCH)
            matches += [(CORPUS_OFFSET + m.position, m.length) for m in in_corpora]
        for position, length in matches:
            near = cursor is not None and 0 <= position - cursor <= NEAR_TOKENS
            strength = length + NEAR_BONUS if near else length
            proposals.append((strength, position, length, NEAR if near else MATCH))
        if cursor is not None:
            matched = {position for position, _ in matches}
            for skipped in range(NEURAL - RESUME):
                if cursor + skipped not in matched:
                    proposals.append((RESUME_STRENGTH - skipped, cursor + skipped, 0, RESUME + skipped))
        if self.before_edited is not None and all(position != self.before_edited for position, _ in matches):
            proposals.append((BEFORE_EDITED_STRENGTH, self.before_edited, 0, MATCH))
        proposals.sort(key=lambda proposal: (-proposal[0], -proposal[1]))
        candidates = [
            Candidate(tokens, position, length, proposal_type, self._kind(sequence, position))
            for _, position, length, proposal_type in proposals
            if (tokens := self._read(sequence, position))
        ]
        if similarities is None or not candidates:
            return candidates
        cosines = similarities([candidate.position for candidate in candidates])
        return [one._replace(similarity=cosine) for one, cosine in zip(candidates, cosines, strict=True)]

    def follow(self, end: int | None, run: int, committed: int) -> None:
        """Move the cursor after a step.

        Args:
            end: position after the last token that was accepted from a copy; None if none was.
            run: tokens of that copy, including those that matched before it.
            committed: tokens that the step committed.
        """
        if end is not None:
            self.before_edited = None
        near = end is not None and self.cursor is not None and 0 <= end - self.cursor <= NEAR_TOKENS
        if end is not None and (near or run >= _SHORTEST_RUN):
            self.cursor, self._gap = end, 0
            return
        self._gap += committed
        if self._gap > _PATIENCE:
            self.cursor = self.before_edited = None

    def begin(self, sequence: Sequence) -> bool:
        """Place the cursor before the first step of a sequence; returns whether this is it."""
        if self._sequence is sequence:
            return False
        self._sequence = sequence
        self.kinds = [KINDS.index(_KIND_OF.get(part.kind, "prompt")) for part in sequence.segments]
        self.corpus_kinds = [KINDS.index(_KIND_OF.get(corpus.kind, "store")) for corpus in sequence.corpora]
        start = 0
        for part in sequence.segments:
            if part.kind == "edited" and part.length:
                self.cursor, self.before_edited = start, start - 1 if start else None
            start += part.length
        start = CORPUS_OFFSET
        for corpus in sequence.corpora:
            if corpus.kind == "prediction" and corpus.ids:
                self.cursor = start
            start += len(corpus.ids)
        return True

    def _read(self, sequence: Sequence, at: int) -> list[int]:
        if at >= CORPUS_OFFSET:
            start = at - CORPUS_OFFSET
            ids: list[int] = sequence.corpus_index.tokens[start : start + self.longest].tolist()
            return ids
        copied: list[int] = sequence.index.tokens[at : at + self.longest].tolist()
        if copied and len(copied) < self.longest:  # the copy reaches the end of the text and continues with itself
            copied = (copied * (self.longest // len(copied) + 1))[: self.longest]
        return copied

    def _kind(self, sequence: Sequence, at: int) -> int:
        if at >= CORPUS_OFFSET:
            return self.corpus_kinds[sequence.corpus_index.segment_of(at - CORPUS_OFFSET)[0]]
        segment = sequence.index.segment_of(at)[0]
        return self.kinds[segment] if segment < len(self.kinds) else _ANSWER
