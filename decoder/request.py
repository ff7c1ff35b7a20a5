"""Request: what is asked of an engine for one answer, checked against its target. Runs no model."""

from __future__ import annotations

import math
from collections.abc import Sequence as Ids
from dataclasses import dataclass, field
from typing import TypedDict

from decoder.drafters.base import Drafter
from decoder.errors import EmptyPrompt, InvalidToken, PromptTooLong
from decoder.model.prefix import Prefix
from decoder.model.target import TargetModel
from decoder.sampling.params import SamplingParams
from decoder.sampling.stopping import Detokenize
from decoder.sequence import Corpus, PromptSegment

MAX_NODES = 64
"""Node budget of a step where the request names none."""


class RequestOptions(TypedDict, total=False):
    """The fields of a `Request` besides the prompt and its parameters, as keyword arguments."""

    segments: Ids[PromptSegment]
    drafter: str | Drafter | None
    detokenize: Detokenize | None
    max_nodes: int | None
    corpora: Ids[Corpus]
    domain: str
    resumed: Ids[int]
    reuse: Prefix | None
    keep: bool


@dataclass(frozen=True, slots=True)
class Request:
    """One answer that is asked for.

    Attributes:
        prompt_ids: the prompt's token ids.
        params: sampling parameters; greedy with 256 tokens by default.
        segments: tags that tile the prompt, for provenance; one untagged segment by default.
        drafter: a drafter's name, or a fresh drafter of one's own; "off" and "plain" draft nothing; None for the
            engine's.
        detokenize: ids -> text; needed for `params.stop` where the engine has none.
        max_nodes: most draft nodes a step.
        corpora: tokens to copy from that are not in the prompt; only `auto` reads them.
        domain: whose acceptance `auto` goes by and learns, such as a collection's name.
        resumed: tokens of the answer that were generated before, elsewhere; the answer goes on behind them. They are
            prefilled and in no step. It is finished at once where they end it.
        reuse: what another sequence left behind (`Generation.leave`). It is used up: of its rows those of the longest
            common beginning are kept, the others forgotten.
        keep: whether the sequence shall leave a prefix behind.
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

    @property
    def nodes(self) -> int:
        return MAX_NODES if self.max_nodes is None else self.max_nodes

    def check(self, target: TargetModel, detokenize: Detokenize | None) -> None:
        """Whether a target can take it.

        Args:
            detokenize: the engine's, where the request has none.

        Raises:
            EmptyPrompt, InvalidToken, PromptTooLong, or ValueError for segments that do not tile the prompt, a bias
            that forbids every token, stop strings without a detokenizer, and max_nodes below 0.
        """
        params, length = self.params, len(self.prompt_ids)
        if not length:
            raise EmptyPrompt
        copied = [token for corpus in self.corpora if corpus.ids for token in (min(corpus.ids), max(corpus.ids))]
        prefilled = [*self.prompt_ids, *self.resumed]
        for token in (min(prefilled), max(prefilled), *params.logit_bias, *copied):
            if not 0 <= token < target.vocab_size:
                raise InvalidToken(token, target.vocab_size)
        if sum(bias == -math.inf for bias in params.logit_bias.values()) == target.vocab_size:
            raise ValueError("logit_bias forbids every token of the vocabulary; leave some out")
        if length + params.max_tokens > target.max_positions:
            raise PromptTooLong(length, params.max_tokens, target.max_positions)
        tiled = sum(segment.length for segment in self.segments)
        if self.segments and tiled != length:
            raise ValueError(f"segments cover {tiled} tokens of a prompt of {length}; they must tile it")
        if params.stop and (self.detokenize or detokenize) is None:
            raise ValueError("stop strings need a detokenizer; pass detokenize=, or stop_token_ids instead")
        if self.nodes < 0:
            raise ValueError(f"max_nodes must be 0 or more, got {self.max_nodes}")
