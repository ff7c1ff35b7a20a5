"""Sequence: one answer being generated. Knows its tokens, limits and state; knows no model and no drafting rule.

`extend` is the one place where tokens are committed: stops, limits and counts are applied there, token by token.
"""

from __future__ import annotations

from collections.abc import Iterable
from collections.abc import Sequence as Ids
from dataclasses import dataclass
from typing import Literal

from decoder.drafts.stats import DecodeStats
from decoder.drafts.token_index import TokenIndex
from decoder.drafts.tree import TokenSource
from decoder.model.kv_cache import KVCache
from decoder.sampling.history import History
from decoder.sampling.logprobs import TokenLogprob
from decoder.sampling.params import SamplingParams
from decoder.sampling.stopping import StopStrings

CORPUS_OFFSET = 1 << 24
"""Positions from here on are those of the corpora; a prompt with its answer is shorter (TokenIndex)."""

FinishReason = Literal["stop", "length", "cancelled"]


@dataclass(frozen=True, slots=True)
class PromptSegment:
    """A tagged run of `length` prompt tokens; segments tile the prompt in order."""

    kind: str
    length: int
    key: str = ""

    def __post_init__(self) -> None:
        if self.length < 0:
            raise ValueError(f"a segment's length must be 0 or more, got {self.length}")


@dataclass(frozen=True, slots=True)
class Corpus:
    """Tokens to copy from that are not in the prompt.

    Attributes:
        kind: "unread" for retrieved passages that are not in the prompt, "prediction" for what a client expects,
            "store" for answers of other conversations.
        ids: the tokens.
        key: names it for provenance.
    """

    kind: str
    ids: tuple[int, ...]
    key: str = ""


@dataclass(frozen=True, slots=True)
class Step:
    """What one draft-verify cycle committed.

    `sources[i]` says where tokens[i] was copied from; None for a token the target chose itself. `logprobs` is
    empty where the answer asks for none.
    """

    tokens: tuple[int, ...]
    sources: tuple[TokenSource | None, ...]
    finish_reason: FinishReason | None = None
    logprobs: tuple[TokenLogprob, ...] = ()


class Sequence:
    """One prompt and its growing answer, as drafters see them."""

    def __init__(
        self,
        prompt: Ids[int],
        params: SamplingParams,
        segments: Ids[PromptSegment],
        cache: KVCache | None,
        end_tokens: frozenset[int],
        stop_strings: StopStrings | None = None,
        *,
        max_nodes: int | None = None,
        corpora: Ids[Corpus] = (),
        domain: str = "",
        near_tie: float | None = None,
        resumed: Ids[int] = (),
    ) -> None:
        self.prompt = list(prompt)
        self.tokens: list[int] = []
        self.params = params
        self.segments = tuple(segments) or (PromptSegment("prompt", len(self.prompt)),)
        self.corpora = tuple(corpora)
        self.domain = domain
        self.pass_sequences = 1
        """Sequences that share the coming pass, this one included."""
        self.pass_tokens = len(self.prompt)
        """Cached tokens of them all."""
        self._cache = cache
        self.max_nodes = max_nodes
        self.history = History(self.prompt, params.grammar.begin() if params.grammar is not None else None)
        self.stats = DecodeStats(prompt_tokens=len(self.prompt), resumed_tokens=len(resumed))
        self.finish_reason: FinishReason | None = None
        self.end_tokens = end_tokens
        """Tokens that end the answer."""
        self._stop_strings = stop_strings
        self.near_tie = near_tie
        """Margin in logits below which a strict answer's choice is made again; None where it is not strict."""
        self.doubtful: int | None = None
        """What the last pass would have chosen, where that was a near-tie; the next pass decides alone."""
        self._cancelled = False
        self._index: TokenIndex | None = None
        self._corpus_index: TokenIndex | None = None
        for token in resumed:
            self.history.push(token)
        if len(self.extend(resumed)) < len(resumed):
            raise ValueError("the answer ends within the tokens that were generated before; resume it with fewer")

    @property
    def cache(self) -> KVCache:
        if self._cache is None:
            raise ValueError("this sequence has no cache: it replays recorded tokens")
        return self._cache

    @property
    def finished(self) -> bool:
        return self.finish_reason is not None

    @property
    def position(self) -> int:
        """Absolute position of the next token."""
        return len(self.prompt) + len(self.tokens)

    @property
    def last_token(self) -> int:
        return self.tokens[-1] if self.tokens else self.prompt[-1]

    @property
    def remaining(self) -> int:
        """Tokens that may still be generated."""
        return self.params.max_tokens - len(self.tokens)

    @property
    def may_draft(self) -> bool:
        """Whether the next pass may hold drafts: not where one token is left, nor where one row has to decide."""
        return self.remaining > 1 and self.doubtful is None

    @property
    def index(self) -> TokenIndex:
        """Index over the prompt's segments and the answer (the last segment); built when first asked for."""
        if self._index is None:
            parts, start = [], 0
            for segment in self.segments:
                parts.append(self.prompt[start : start + segment.length])
                start += segment.length
            self._index = TokenIndex.build(parts)
            self._index.add_segment(self.tokens)
        return self._index

    @property
    def corpus_index(self) -> TokenIndex:
        """Index over the corpora, each a segment, in order; built when first asked for."""
        if self._corpus_index is None:
            self._corpus_index = TokenIndex.build([corpus.ids for corpus in self.corpora])
        return self._corpus_index

    def suffix(self, size: int) -> list[int]:
        """The last `size` tokens of prompt and answer, fewer where there are not as many."""
        missing = size - len(self.tokens)
        return self.prompt[-missing:] + self.tokens if missing > 0 else self.tokens[len(self.tokens) - size :]

    def copy_of(self, drafter: str, position: int) -> TokenSource:
        """The source of a token copied from an absolute position of the index, or BESIDE + one of the corpora's."""
        if position >= CORPUS_OFFSET:
            corpus, offset = self.corpus_index.segment_of(position - CORPUS_OFFSET)
            return TokenSource(drafter, len(self.segments) + corpus, offset)
        segment, offset = self.index.segment_of(position)
        return TokenSource(drafter, segment if segment < len(self.segments) else None, offset)

    def cancel(self) -> None:
        """Finish before the next step, keeping what was generated. Safe from any thread."""
        self._cancelled = True

    def finish_if_cancelled(self) -> bool:
        if self._cancelled and not self.finished:
            self.finish_reason = "cancelled"
        return self.finished

    def extend(self, tokens: Iterable[int]) -> list[int]:
        """Commit tokens one by one until the answer ends; returns those committed."""
        committed: list[int] = []
        for token in tokens:
            self.tokens.append(token)
            committed.append(token)
            self.finish_reason = self._finish_after(token)
            if self.finish_reason is not None:
                break
        if self._index is not None:
            self._index.extend(committed)
        self.stats.tokens = len(self.tokens) - self.stats.resumed_tokens
        return committed

    def _finish_after(self, token: int) -> FinishReason | None:
        if token in self.end_tokens:
            return "stop"
        if self._stop_strings is not None and self._stop_strings.completed_by_last(self.tokens):
            return "stop"
        complete_after = self.history.complete_after
        if complete_after is not None and len(self.tokens) >= complete_after:
            return "stop"
        return "length" if self.remaining <= 0 else None
