"""`small_model`: speculative decoding with a smaller model of the same tokenizer (Leviathan et al. 2023), in chains.

The draft model picks its tokens like the target: by `select`, with the answer's parameters, positions and history.
Greedy answers get greedy drafts. For sampled answers both models use the same noise, so they agree more often than
with independent noise (coupling without communication, Daliri et al. 2024).
"""

from __future__ import annotations

from typing import ClassVar

import torch

from decoder.drafters.base import Drafter
from decoder.drafters.context import DrafterContext
from decoder.drafts.tree import DraftTree, TokenSource
from decoder.errors import DrafterUnavailable
from decoder.model.kv_cache import KVCache
from decoder.model.target import TargetModel
from decoder.sampling.select import select
from decoder.sequence import Sequence

MOST_PADDING = 1024
"""Most token ids by which the padded vocabularies of one tokenizer may differ in size."""


class SmallModelDrafter(Drafter):
    """A chain from a draft model, whose cache follows the sequence.

    Each draft first drops the rows of rejected tokens and prefills the tokens that were committed since the last
    draft, in one pass. Nothing runs before the first draft. There are no drafts for sequences with tokens that the
    draft model lacks, or beyond its window.

    Args:
        length: most tokens in a chain.

    Raises:
        ValueError: length is below 1.
    """

    name: ClassVar[str] = "small_model"

    def __init__(self, length: int = 4) -> None:
        if length < 1:
            raise ValueError(f"length must be at least 1, got {length}")
        self.length = length
        self._model: TargetModel | None = None
        self._cache: KVCache | None = None
        self._drafted: list[int] = []
        """The tokens of the cached rows after the first `_committed` ones."""
        self._committed = 0
        self._has_unknown_tokens = False
        self._vocab_size = 0
        self._source = TokenSource(self.name)

    def setup(self, context: DrafterContext) -> None:
        model = context.draft_model
        if model is None:
            raise DrafterUnavailable(
                self.name,
                "no draft model is loaded; name one with load_engine(draft_model=…) or the setting RAG_DRAFT_MODEL",
            )
        size = model.vocab_size if context.target is None else context.target.vocab_size
        if abs(size - model.vocab_size) > MOST_PADDING:
            raise DrafterUnavailable(
                self.name,
                f"the draft model has {model.vocab_size} token ids and the target {size}, so their tokenizers differ; "
                "choose a draft model of the target's family",
            )
        self._model = model
        self._vocab_size = size

    def unprocessed(self, sequence: Sequence) -> int:
        """The number of committed tokens that the next draft has to prefill, at most."""
        return sequence.position - self._committed

    def draft(self, sequence: Sequence, budget: int) -> DraftTree:
        model = self._model
        if model is None:
            raise DrafterUnavailable(self.name, "it needs an engine with a draft model and cannot replay recordings")
        # The last of `size` tokens does not run, so the window must fit the committed tokens and size - 1 more.
        window = model.max_positions - sequence.position + 1
        size = min(self.length, budget, sequence.remaining - 1, window)
        logits = self._catch_up(sequence, model) if size >= 1 and not self._has_unknown_tokens else None
        if logits is None:
            return DraftTree()
        cache, params = self._cache_of(sequence, model), sequence.params
        history = sequence.history.copy() if params.reads_history else sequence.history
        chain: list[int] = []
        values: list[float] = []
        while True:
            token = select(self._to_target_vocabulary(logits), params, sequence.position + len(chain), history)
            chain.append(token)
            probability = 0.0 if token >= len(logits) else float((logits[token] - logits.logsumexp(0)).exp())
            values.append(probability * (values[-1] if values else 1.0))
            if len(chain) == size or token >= model.vocab_size:
                break
            if params.reads_history:
                history.push(token)
            logits = model.prefill([token], cache).logits[0]
        self._drafted = chain[: cache.length - self._committed]
        tree = DraftTree.chain(chain, [self._source] * len(chain))
        tree.values = values
        return tree

    def _catch_up(self, sequence: Sequence, model: TargetModel) -> torch.Tensor | None:
        """Update the cache; returns the logits after the last committed token, float [draft vocabulary].

        None if the sequence has tokens that the draft model lacks.
        """
        cache = self._cache_of(sequence, model)
        if self._committed == sequence.position:  # a second draft at this position: the last token runs again
            self._committed, self._drafted = sequence.position - 1, []
        new = sequence.suffix(sequence.position - self._committed)
        accepted = 0
        while accepted < min(len(new) - 1, len(self._drafted)) and new[accepted] == self._drafted[accepted]:
            accepted += 1
        uncached = new[accepted:]
        if max(uncached) >= model.vocab_size:
            self._has_unknown_tokens = True
            return None
        cache.truncate(self._committed + accepted)
        logits = model.prefill(uncached, cache).logits[0]
        self._committed, self._drafted = sequence.position, []
        return logits

    def _cache_of(self, sequence: Sequence, model: TargetModel) -> KVCache:
        if self._cache is None:
            most = len(sequence.prompt) + sequence.params.max_tokens + self.length
            self._cache = model.new_cache(min(most, model.max_positions))
        return self._cache

    def _to_target_vocabulary(self, logits: torch.Tensor) -> torch.Tensor:
        """Logits over the target's vocabulary: extra ids are cut, missing ids get -inf."""
        missing = self._vocab_size - len(logits)
        if missing > 0:
            return torch.nn.functional.pad(logits, (0, missing), value=float("-inf"))
        return logits[: self._vocab_size]
