"""Sequence: one prompt and its growing answer, as drafters see them. Knows no model and no drafting rule.

`extend` is the only place that commits tokens: it applies stops and limits and counts, token by token.
"""

from __future__ import annotations

from collections.abc import Iterable
from collections.abc import Sequence as Ids
from dataclasses import dataclass
from typing import Literal, NamedTuple

from decoder.drafts.stats import DecodeStats
from decoder.drafts.token_index import TokenIndex
from decoder.drafts.tree import TokenSource
from decoder.model.kv_cache import KVCache
from decoder.sampling.history import History
from decoder.sampling.logprobs import TokenLogprob
from decoder.sampling.params import SamplingParams
from decoder.sampling.repetition import Repetition
from decoder.sampling.stopping import StopStrings

CORPUS_OFFSET = 1 << 24
"""Positions from here on lie in the corpora; a prompt with its answer is shorter (`TokenIndex`)."""

FinishReason = Literal["stop", "length", "repetition", "cancelled"]


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
        kind: "unread" for retrieved passages that the prompt does not hold, "prediction" for the text a client
            expects, "store" for answers of other conversations.
        ids: the tokens.
        key: the name that provenance shows.
    """

    kind: str
    ids: tuple[int, ...]
    key: str = ""


@dataclass(frozen=True, slots=True)
class Step:
    """The tokens that one draft-verify cycle committed.

    `sources[i]` tells which drafter proposed tokens[i], and from where if it copied; None if no draft had it.
    `logprobs` is empty unless the request wants log-probabilities.
    """

    tokens: tuple[int, ...]
    sources: tuple[TokenSource | None, ...]
    finish_reason: FinishReason | None = None
    logprobs: tuple[TokenLogprob, ...] = ()


class PassLoad(NamedTuple):
    """How full the target pass is.

    Attributes:
        sequences: sequences in the pass.
        cached_tokens: rows that they have in their caches together.
        nodes: draft nodes of all; 0 until all are drafted.
    """

    sequences: int
    cached_tokens: int
    nodes: int = 0


class Sequence:
    """One prompt and its growing answer.

    Args:
        prompt: token ids.
        params: sampling parameters.
        segments: tags that tile the prompt; one untagged segment if empty.
        cache: the sequence's rows of the target's KV cache; None when recorded tokens are replayed.
        end_tokens: tokens that end the answer.
        stop_strings: texts that end the answer.
        corpora: tokens to copy from that are not in the prompt.
        domain: selects what drafters learned, such as a collection's name.
        resumed: tokens of the answer that were generated before.

    Raises:
        ValueError: the answer ends before the last of the `resumed` tokens.
    """

    def __init__(
        self,
        prompt: Ids[int],
        params: SamplingParams,
        segments: Ids[PromptSegment],
        cache: KVCache | None,
        end_tokens: frozenset[int],
        stop_strings: StopStrings | None = None,
        *,
        corpora: Ids[Corpus] = (),
        domain: str = "",
        resumed: Ids[int] = (),
    ) -> None:
        self.prompt = list(prompt)
        self._params = params
        self.segments = tuple(segments) or (PromptSegment("prompt", len(self.prompt)),)
        self.corpora = tuple(corpora)
        self.domain = domain
        self.end_tokens = end_tokens
        self._stop_strings = stop_strings
        self._repetition = None if params.repetition is None else Repetition(params.repetition, self.prompt)

        self.tokens: list[int] = []
        self.history = History(self.prompt, params.grammar.begin() if params.grammar is not None else None)
        self.stats = DecodeStats(prompt_tokens=len(self.prompt), resumed_tokens=len(resumed))
        self.finish_reason: FinishReason | None = None

        self.pass_load = PassLoad(1, len(self.prompt))
        """The pass that this sequence takes part in next, or took part in last."""
        self._cache = cache
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
    def params(self) -> SamplingParams:
        """Those of the next token."""
        return self._params.behind(self.history.tokens) if self._params.openings else self._params

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

    def suffix(self, size: int) -> list[int]:
        """The last `size` tokens of prompt and answer, or all of them if there are fewer."""
        missing = size - len(self.tokens)
        return self.prompt[-missing:] + self.tokens if missing > 0 else self.tokens[len(self.tokens) - size :]

    @property
    def index(self) -> TokenIndex:
        """Index over the prompt's segments and the answer (the last segment); built on first use."""
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
        """Index over the corpora, each a segment, in order; built on first use."""
        if self._corpus_index is None:
            self._corpus_index = TokenIndex.build([corpus.ids for corpus in self.corpora])
        return self._corpus_index

    def copy_of(self, drafter: str, position: int) -> TokenSource:
        """The source of a token that `drafter` copied from `position`.

        Args:
            position: absolute position in `index`, or CORPUS_OFFSET + position in `corpus_index`.
        """
        if position >= CORPUS_OFFSET:
            corpus, offset = self.corpus_index.segment_of(position - CORPUS_OFFSET)
            return TokenSource(drafter, len(self.segments) + corpus, offset)
        segment, offset = self.index.segment_of(position)
        return TokenSource(drafter, segment if segment < len(self.segments) else None, offset)

    def extend(self, tokens: Iterable[int]) -> list[int]:
        """Commit tokens one by one until the answer ends; returns those committed."""
        committed: list[int] = []
        for token in tokens:
            self.tokens.append(token)
            committed.append(token)
            self.finish_reason = self._finish_after(token)
            if self.finish_reason is not None:
                break
        if self._params.openings and max(map(len, self._params.openings)) <= len(self.tokens):
            self._params = self.params  # it has no openings any more
        if self._index is not None:
            self._index.extend(committed)
        self.stats.tokens = len(self.tokens) - self.stats.resumed_tokens
        return committed

    def _finish_after(self, token: int) -> FinishReason | None:
        repeats = self._repetition is not None and self._repetition.push(token)
        if token in self.end_tokens:
            return "stop"
        if self._stop_strings is not None and self._stop_strings.completed_by_last(self.tokens):
            return "stop"
        complete_after = self.history.complete_after
        if complete_after is not None and len(self.tokens) >= complete_after:
            return "stop"
        if repeats:
            return "repetition"
        return "length" if self.remaining <= 0 else None
