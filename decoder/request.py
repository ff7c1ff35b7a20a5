"""Request: one request to an engine, with a check against its target. Runs no model."""

from __future__ import annotations

import math
from collections.abc import Sequence as Ids
from dataclasses import dataclass, field
from itertools import chain
from typing import TypedDict

from decoder.drafters.base import Drafter
from decoder.errors import EmptyPrompt, InvalidToken, PromptTooLong
from decoder.model.prefix import Prefix
from decoder.model.target import TargetModel
from decoder.sampling.params import SamplingParams
from decoder.sampling.stopping import Detokenize
from decoder.sequence import Corpus, PromptSegment

MAX_NODES = 64
"""The default node budget of a step."""


class RequestOptions(TypedDict, total=False):
    """The fields of a `Request` after the prompt and its parameters, as keyword arguments."""

    segments: Ids[PromptSegment]
    drafter: str | Drafter | None
    detokenize: Detokenize | None
    max_nodes: int | None
    corpora: Ids[Corpus]
    domain: str
    resumed: Ids[int]
    reuse: Prefix | None
    keep: bool
    read: frozenset[int]


@dataclass(frozen=True, slots=True)
class Request:
    """One request for an answer.

    Attributes:
        prompt_ids: the prompt's token ids.
        params: sampling parameters; greedy with 256 tokens by default.
        segments: tags that tile the prompt, for provenance; one untagged segment by default.
        drafter: a drafter's name, or a new `Drafter`. "off" and "plain" draft nothing; None takes the engine's.
        detokenize: ids -> text, for `params.stop`; None takes the engine's.
        max_nodes: most draft nodes per step; MAX_NODES if None.
        corpora: tokens to copy from that are not in the prompt; only `auto` reads them.
        domain: selects the acceptance statistics and the tables of next tokens that `auto` uses and updates, such as a
            collection's name.
        resumed: tokens of the answer that another run generated; generation continues after them. They are prefilled
            and part of no step. If they end the answer, it is finished at once.
        reuse: a prefix of an earlier sequence (`Generation.detach_prefix`). The new sequence takes over its cache and
            keeps the rows of the longest common prefix; it cannot be used again.
        keep: whether the sequence collects rows for `Generation.detach_prefix`.
        read: decoder layers (0 is the first) whose output at the prompt's last token becomes `Generation.states`.
    """

    prompt_ids: Ids[int]
    params: SamplingParams = field(default_factory=SamplingParams)
    segments: Ids[PromptSegment] = ()
    drafter: str | Drafter | None = None
    detokenize: Detokenize | None = None
    max_nodes: int | None = None
    corpora: Ids[Corpus] = ()
    domain: str = ""
    resumed: Ids[int] = ()
    reuse: Prefix | None = None
    keep: bool = False
    read: frozenset[int] = frozenset()

    @property
    def nodes(self) -> int:
        """The node budget of a step."""
        return MAX_NODES if self.max_nodes is None else self.max_nodes

    def check(self, target: TargetModel, detokenize: Detokenize | None) -> None:
        """Check that a target can run the request.

        Args:
            target: the target model.
            detokenize: the engine's detokenizer.

        Raises:
            EmptyPrompt: the prompt has no tokens.
            InvalidToken: a token id is outside the target's vocabulary.
            PromptTooLong: prompt and max_tokens exceed the target's window.
            ValueError: the answer shall be bitwise and the target is not, the segments do not tile the prompt, a bias
                forbids every token, there are stop strings without a detokenizer, max_nodes is below 0, or the target
                has no such layer to read.
        """
        params, length = self.params, len(self.prompt_ids)
        if not length:
            raise EmptyPrompt
        copied = [token for corpus in self.corpora if corpus.ids for token in (min(corpus.ids), max(corpus.ids))]
        prefilled = [*self.prompt_ids, *self.resumed]
        for token in (min(prefilled), max(prefilled), *params.logit_bias, *chain(*params.openings), *copied):
            if not 0 <= token < target.vocab_size:
                raise InvalidToken(token, target.vocab_size)
        forbidden = {token for token, bias in params.logit_bias.items() if bias == -math.inf}
        if len(forbidden.union(opening[-1] for opening in params.openings)) == target.vocab_size:
            raise ValueError("logit_bias and openings forbid every token of the vocabulary; allow at least one")
        if length + params.max_tokens > target.max_positions:
            raise PromptTooLong(length, params.max_tokens, target.max_positions)
        tiled = sum(segment.length for segment in self.segments)
        if self.segments and tiled != length:
            raise ValueError(f"the segments cover {tiled} tokens, the prompt has {length}; make them tile the prompt")
        if params.exact == "bitwise" and not target.bitwise:
            raise ValueError("exact='bitwise' needs an engine whose passes are: load_engine(…, exact='bitwise')")
        if params.stop and (self.detokenize or detokenize) is None:
            raise ValueError("stop strings need a detokenizer; pass detokenize=, or stop_token_ids instead")
        if unknown := sorted(layer for layer in self.read if not 0 <= layer < target.layers):
            raise ValueError(f"read names layer {unknown[0]}; the target's are 0 to {target.layers - 1}")
        if self.nodes < 0:
            raise ValueError(f"max_nodes must be 0 or more, got {self.max_nodes}")
