"""`eagle`: EAGLE-2 (arXiv 2406.16858), with heads of EAGLE, EAGLE-2 and EAGLE-3.

The head reads features that verify passes compute anyway. After a step, accepted tokens' true features replace the
drafted ones, each paired with the token after it, and the last of them is the root of the next tree. For sampled
answers the head's logits get the noise that the target's logits will get at the same position (`draft_scores`), so the
first child of a node is the token that `select` would choose there if the head were right.
"""

from __future__ import annotations

from typing import ClassVar

import torch

from decoder.drafters.base import Drafter
from decoder.drafters.context import DrafterContext
from decoder.drafters.draft_scores import COUPLINGS, Coupling, NoisyDraftLogits
from decoder.drafters.eagle.draft_tree import Shape, grow
from decoder.drafts.accepted import Accepted
from decoder.drafts.tree import DraftTree, TokenSource
from decoder.errors import DrafterUnavailable
from decoder.heads.head import FittedHead
from decoder.model.forward_outputs import ForwardOutputs
from decoder.model.kv_cache import KVCache
from decoder.sequence import Sequence

SPARE = 128
"""Initial rows of the head's cache for drafted tokens."""


class EagleDrafter(Drafter):
    """Drafts a dynamic tree with a feature head. The head runs at the first draft; features are queued until then.

    Args:
        top_k: children of an expanded node, and expanded nodes of a level.
        depth: levels.
        nodes: nodes of the tree.
        coupling: noise of a sampled answer's drafts: "shared" with the target, "independent" of it, or "none".
    """

    name: ClassVar[str] = "eagle"

    def __init__(self, top_k: int = 10, depth: int = 6, nodes: int = 60, coupling: Coupling = "shared") -> None:
        if min(top_k, depth, nodes) < 1:
            raise ValueError(f"top_k, depth and nodes must be at least 1, got {top_k}, {depth} and {nodes}")
        if coupling not in COUPLINGS:
            raise ValueError(f"coupling must be one of {', '.join(COUPLINGS)}, got {coupling!r}")
        self.shape = Shape(top_k, depth, nodes)
        self.coupling: Coupling = coupling
        self._model: FittedHead | None = None
        self._vocab_size = 0
        self._cache: KVCache | None = None
        self._pending: list[torch.Tensor] = []
        """Observed features that the head has not run yet, [rows, F] each."""
        self._observed = 0
        self._state: torch.Tensor | None = None
        """[1, D], the head's output for the last row it ran."""
        self._source = TokenSource(self.name)

    def setup(self, context: DrafterContext) -> None:
        if context.eagle_head is None:
            raise DrafterUnavailable(
                self.name,
                "no EAGLE head is loaded; name one with load_engine(eagle_head=…) or the setting RAG_EAGLE_HEAD, or "
                "train one with `rag train eagle`",
            )
        self._model = context.eagle_head
        self.required_outputs = self._model.required_outputs
        self._vocab_size = self._model.vocab_size

    def unprocessed(self, sequence: Sequence) -> int:
        """Committed rows that the head has not run yet; the next draft runs them first."""
        return sequence.position - 1 - (self._cache.length if self._cache is not None else 0)

    def observe(self, sequence: Sequence, tree: DraftTree, accepted: Accepted, outputs: ForwardOutputs) -> None:
        features = None if self._model is None else self._model.features(outputs)
        if features is not None:
            self._pending.append(features)
            self._observed += len(features)

    @torch.inference_mode()
    def draft(self, sequence: Sequence, budget: int) -> DraftTree:
        model = self._model
        if model is None:
            raise DrafterUnavailable(self.name, "it needs an engine with an EAGLE head and cannot replay recordings")
        # A pass yields one more token than it accepts, so a node at depth `remaining` could never be used.
        depth, nodes = min(self.shape.depth, sequence.remaining - 1), min(self.shape.nodes, budget)
        if min(depth, nodes) < 1 or self._observed != sequence.position - 1:  # some features are missing
            return DraftTree()
        cache = self._cache_of(sequence, model)
        state = self._catch_up(sequence, model, cache)
        params = sequence.params
        adjust = (
            None
            if params.plain_greedy
            else NoisyDraftLogits(
                params, sequence.position, sequence.history, model.tokens, self._vocab_size, self.coupling
            )
        )
        return grow(model, state, cache, Shape(self.shape.top_k, depth, nodes), adjust, self._source)

    def _catch_up(self, sequence: Sequence, model: FittedHead, cache: KVCache) -> torch.Tensor:
        """Run the rows committed since the last draft: row i pairs the feature at position i and the token at i + 1."""
        if self._pending:
            tokens = torch.tensor(sequence.suffix(sequence.position - 1 - cache.length), device=model.device)
            features = self._pending[0] if len(self._pending) == 1 else torch.cat(self._pending)
            self._state, self._pending = model.catch_up(tokens, features, cache), []
        assert self._state is not None, "a prompt has at least one token"
        return self._state

    def _cache_of(self, sequence: Sequence, model: FittedHead) -> KVCache:
        if self._cache is None:
            self._cache = model.new_cache(len(sequence.prompt) + sequence.params.max_tokens + SPARE)
        return self._cache
