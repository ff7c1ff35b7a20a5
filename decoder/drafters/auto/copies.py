"""Copies: where the coming tokens may stand already, by n-gram matches and by the cursor of the last copied run.

The cursor stays where the last copied run was left. When a draft is rejected there, the run may go on at once (a token
was inserted), behind one token (it was replaced) or behind two, long before an n-gram matches again: an edit is mostly
that. For a text under edit and a prediction the cursor stands at their first token before anything was generated; the
token in front of a text under edit, most often a line break, may be what an answer that opens a fence goes on with.

Knows a sequence's index and corpora; knows no probabilities and no tree.
"""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Sequence as Ids
from typing import NamedTuple

from decoder.drafters.learning.acceptance import KINDS, PROPOSAL_TYPES
from decoder.sequence import CORPUS_OFFSET, Sequence

MATCH, NEAR, RESUME, NEURAL = (PROPOSAL_TYPES.index(name) for name in ("match", "near", "resume", "neural"))
GUESS, HEAD, MASKS = (PROPOSAL_TYPES.index(name) for name in ("guess", "head", "masks"))
_OWN = KINDS.index("answer")
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
"""A match at most this far behind the last copied run is taken for its continuation."""
_SHORTEST_RUN = 4
"""Tokens a copied run has at least for the cursor to stay with it."""
_PATIENCE = 16
"""Tokens after which a run that was not taken up again is forgotten."""
_NEAR_BONUS = 6.0
_RESUME_STRENGTH = 3.5
_IN_FRONT_STRENGTH = 3.0


class Candidate(NamedTuple):
    """One place to copy from.

    Attributes:
        tokens: what stands there.
        position: of tokens[0], see `Sequence.copy_of`.
        length: tokens before it that equal the last tokens of the text.
        proposal_type, kind: indices into LANES and KINDS.
        similarity: cosine of the model's states there and here, None where unknown.
        rank: of a guess, among the last logits, from 0; `length` then counts what matched before tokens[1], less 1.
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
        longest: most tokens a candidate has.
    """

    def __init__(self, matches: int = 24, longest: int = 64) -> None:
        self.matches = matches
        self.longest = longest
        self._cursor: int | None = None
        self._gap = 0
        self._in_front: int | None = None
        """The token in front of a text under edit, until something was copied."""
        self._sequence: Sequence | None = None

    def candidates(
        self, sequence: Sequence, similarities: Callable[[Ids[int]], list[float | None]] | None = None
    ) -> list[Candidate]:
        """Candidates for the next tokens, the strongest first; each has at least one token.

        Args:
            similarities: positions -> how alike the model's states are there and here.
        """
        if self._sequence is not sequence:
            self._begin(sequence)
        cursor = self._cursor
        found: list[tuple[float, int, int, int]] = []  # (strength, position, length, proposal type)
        suffix = sequence.suffix(LONGEST_MATCH)
        matches = [(m.position, m.length) for m in sequence.index.matches(suffix, self.matches, LONGEST_MATCH)]
        if sequence.corpora:
            found_there = sequence.corpus_index.matches(suffix, self.matches, LONGEST_MATCH)
            matches += [(CORPUS_OFFSET + m.position, m.length) for m in found_there]
        for position, length in matches:
            near = cursor is not None and 0 <= position - cursor <= NEAR_TOKENS
            found.append((length + _NEAR_BONUS if near else length, position, length, NEAR if near else MATCH))
        if cursor is not None:
            known = {position for position, _ in matches}
            for skipped in range(NEURAL - RESUME):
                if cursor + skipped not in known:
                    found.append((_RESUME_STRENGTH - skipped, cursor + skipped, 0, RESUME + skipped))
        if self._in_front is not None and all(position != self._in_front for position, _ in matches):
            found.append((_IN_FRONT_STRENGTH, self._in_front, 0, MATCH))
        found.sort(key=_order)
        alike = similarities([at for _, at, _, _ in found]) if similarities and found else [None] * len(found)
        made = []
        for (_, at, length, proposal_type), similarity in zip(found, alike, strict=True):
            tokens = self._read(sequence, at)
            if tokens:
                made.append(Candidate(tokens, at, length, proposal_type, self._kind(sequence, at), similarity))
        return made

    def follow(self, end: int | None, run: int, committed: int) -> None:
        """Move the cursor after a step.

        Args:
            end: position behind the last token that was accepted from a copy, None if none was.
            run: tokens of that copy, those that had matched before it included.
            committed: tokens the step committed.
        """
        if end is not None:
            self._in_front = None
        near = end is not None and self._cursor is not None and 0 <= end - self._cursor <= NEAR_TOKENS
        if end is not None and (near or run >= _SHORTEST_RUN):
            self._cursor, self._gap = end, 0
            return
        self._gap += committed
        if self._gap > _PATIENCE:
            self._cursor = self._in_front = None

    def _begin(self, sequence: Sequence) -> None:
        self._sequence = sequence
        self._kinds = [KINDS.index(_KIND_OF.get(part.kind, "prompt")) for part in sequence.segments]
        self._corpus_kinds = [KINDS.index(_KIND_OF.get(corpus.kind, "store")) for corpus in sequence.corpora]
        start = 0
        for part in sequence.segments:
            if part.kind == "edited" and part.length:
                self._cursor, self._in_front = start, start - 1 if start else None
            start += part.length
        start = CORPUS_OFFSET
        for corpus in sequence.corpora:
            if corpus.kind == "prediction" and corpus.ids:
                self._cursor = start
            start += len(corpus.ids)

    def _read(self, sequence: Sequence, at: int) -> list[int]:
        if at >= CORPUS_OFFSET:
            start = at - CORPUS_OFFSET
            ids: list[int] = sequence.corpus_index.tokens[start : start + self.longest].tolist()
            return ids
        copied: list[int] = sequence.index.tokens[at : at + self.longest].tolist()
        if copied and len(copied) < self.longest:  # what stands there ends with the text, so it goes on with itself
            copied = (copied * (self.longest // len(copied) + 1))[: self.longest]
        return copied

    def _kind(self, sequence: Sequence, at: int) -> int:
        if at >= CORPUS_OFFSET:
            return self._corpus_kinds[sequence.corpus_index.segment_of(at - CORPUS_OFFSET)[0]]
        segment = sequence.index.segment_of(at)[0]
        return self._kinds[segment] if segment < len(self._kinds) else _OWN


def _order(found: tuple[float, int, int, int]) -> tuple[float, int]:
    return -found[0], -found[1]
