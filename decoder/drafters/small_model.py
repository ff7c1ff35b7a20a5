"""`small_model`: speculative decoding with a smaller model of the same tokenizer (Leviathan et al. 2023), in chains.

The draft model picks its tokens as the target will: by `select`, with the answer's parameters, positions and history.
Greedy answers get greedy drafts; for sampled ones both models meet the same noise, so they agree more often than two
independent draws would (coupling without communication, Daliri et al. 2024). Nothing of this can change an answer.
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
"""Vocabularies of one tokenizer differ in size only by the padding of their matrices; further apart they differ."""


class SmallModelDrafter(Drafter):
    """A chain from a draft model, whose keys and values are kept in step with the sequence.

    The rows of rejected tokens are dropped when the next draft begins; what was committed meanwhile, by whomever it
    was drafted, is prefilled in one pass. Nothing runs before the first draft. Sequences that hold tokens the draft
    model does not have, or that outgrow its window, get no drafts.

    Args:
        length: tokens a chain holds at most.
    """

    name: ClassVar[str] = "small_model"

    def __init__(self, length: int = 4) -> None:
        if length < 1:
            raise ValueError(f"length must be at least 1, got {length}")
        self.length = length
        self._model: TargetModel | None = None
        self._cache: KVCache | None = None
        self._drafted: list[int] = []
        """Tokens whose rows the cache holds behind `_committed` ones."""
        self._committed = 0
        self._foreign = False
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
        """Tokens that the next draft runs first: what was committed since the last one, and what of it was rejected."""
        return sequence.position - self._committed

    def draft(self, sequence: Sequence, budget: int) -> DraftTree:
        model = self._model
        if model is None:
            raise DrafterUnavailable(self.name, "it needs an engine with a draft model and cannot replay recordings")
        # The last of `size` tokens is not run itself: the window must hold the committed ones and size - 1 more.
        window = model.max_positions - sequence.position + 1
        size = min(self.length, budget, sequence.remaining - 1, window)
        logits = self._catch_up(sequence, model) if size >= 1 and not self._foreign else None
        if logits is None:
            return DraftTree()
        cache, params = self._cache_of(sequence, model), sequence.params
        history = sequence.history.copy() if params.reads_history else sequence.history
        chain: list[int] = []
        values: list[float] = []
        while True:
            token = select(self._fitted(logits), params, sequence.position + len(chain), history)
            chain.append(token)
            sure = 0.0 if token >= len(logits) else float((logits[token] - logits.logsumexp(0)).exp())
            values.append(sure * (values[-1] if values else 1.0))
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
        """Bring the cache in step; returns the logits behind the last committed token, float [draft vocabulary]."""
        cache = self._cache_of(sequence, model)
        if self._committed == sequence.position:  # asked again: the last token runs again, for its logits
            self._committed, self._drafted = sequence.position - 1, []
        news = sequence.suffix(sequence.position - self._committed)
        agreed = 0
        while agreed < min(len(news) - 1, len(self._drafted)) and news[agreed] == self._drafted[agreed]:
            agreed += 1
        unseen = news[agreed:]
        if max(unseen) >= model.vocab_size:
            self._foreign = True
            return None
        cache.truncate(self._committed + agreed)
        logits = model.prefill(unseen, cache).logits[0]
        self._committed, self._drafted = sequence.position, []
        return logits

    def _cache_of(self, sequence: Sequence, model: TargetModel) -> KVCache:
        if self._cache is None:
            most = len(sequence.prompt) + sequence.params.max_tokens + self.length
            self._cache = model.new_cache(min(most, model.max_positions))
        return self._cache

    def _fitted(self, logits: torch.Tensor) -> torch.Tensor:
        """Logits over the target's vocabulary: ids that only the draft model has are cut, missing ones cannot win."""
        missing = self._vocab_size - len(logits)
        if missing > 0:
            return torch.nn.functional.pad(logits, (0, missing), value=float("-inf"))
        return logits[: self._vocab_size]
