"""TargetModel: the model whose output must be preserved, one pass at a time.

Knows the stock transformers model, caches and trees; knows no drafter, no sampling, no text.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from typing import Any

import torch

from decoder.drafts.mask_chains import NO_MASKS, MaskChains, MaskRows
from decoder.drafts.tree import ROOT, DraftTree, TokenSource
from decoder.model import architecture, attention
from decoder.model.adapters import Adapters, AdaptiveRows
from decoder.model.forward_outputs import NOTHING, ForwardOutputs, RequiredOutputs
from decoder.model.kv_cache import KVCache
from decoder.model.packed_linear import pack, packed_passes

PREFILL_CHUNK = 512
"""Prompt tokens a prefill pass takes at most; bounds its activations."""


@dataclass(frozen=True, slots=True)
class TreePass:
    """One sequence's part of a pass: its cache, its last committed token (the root), its draft tree, its needs, and the
    adaptive rows behind them, which the target must have adapters for."""

    cache: KVCache
    root: int
    tree: DraftTree
    required_outputs: RequiredOutputs = NOTHING
    masks: MaskChains = NO_MASKS

    @property
    def rows(self) -> int:
        """Ordinary rows and adaptive ones."""
        return 1 + len(self.tree) + len(self.masks)


@dataclass(frozen=True, slots=True)
class PromptChunk:
    """One sequence's part of a pass while its prompt is still being processed: the next prompt tokens."""

    cache: KVCache
    ids: Sequence[int]
    required_outputs: RequiredOutputs = NOTHING


class TargetModel:
    """A stock causal language model run over trees of several sequences at once.

    Args:
        model: a transformers causal LM whose attention goes through the attention interface (Llama, Qwen2, Qwen3,
            Mistral, ...), on its device and in its dtype; it is switched to `decoder.model.attention` and to eval mode.

    Raises:
        UnsupportedModel: the model's attention cannot take a tree mask (sliding windows, soft-capping, no cache), or a
            trial pass gives other logits than the stock model.
    """

    def __init__(self, model: Any) -> None:
        config = model.config
        architecture.check(config)
        model.eval().requires_grad_(False)
        fresh = config._attn_implementation != attention.NAME
        stock = architecture.stock_logits(model) if fresh else None
        model.set_attn_implementation(attention.NAME)
        self.packed: int = pack(model)
        """Linear layers with packed weights."""
        self.adapters: Adapters | None = None
        """What adaptive rows need, in the model's dtype."""
        self.model = model
        self.vocab_size: int = config.vocab_size
        self.max_positions: int = architecture.positions(config)
        """Positions the model was built for: prompt and answer must fit."""
        self.layers: int = config.num_hidden_layers
        self.heads: int = config.num_attention_heads
        """Query heads a layer."""
        self.kv_heads: int = getattr(config, "num_key_value_heads", None) or config.num_attention_heads
        self.head_dim: int = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
        self.dtype: torch.dtype = model.dtype
        self.device: torch.device = model.device
        if stock is not None:
            self._try(stock)

    def new_cache(self, capacity: int) -> KVCache:
        """An empty cache with room for `capacity` rows."""
        return KVCache(self.layers, self.kv_heads, self.head_dim, capacity, self.dtype, self.device)

    def _try(self, stock: torch.Tensor) -> None:
        """Compare a prompt and a tree of two branches with the stock model's logits, [n, V]."""
        ids = architecture.trial_text(self.model.config)
        half, kind = len(ids) // 2, self.model.config.model_type
        if half < 2:
            return  # no room for a tree
        tree = DraftTree()
        wrong, *right = [TokenSource("trial")] * (len(ids) - half)
        tree.add(ids[0], ROOT, wrong)
        tree.add_chain(ids[half + 1 :], right)
        required_outputs = RequiredOutputs(hidden=frozenset({0, self.layers - 1}), features=True)
        try:
            cache = self.new_cache(len(ids) + 1)
            begun = self.prefill(ids[:half], cache, required_outputs).logits
            made = self.forward_tree([TreePass(cache, ids[half], tree, required_outputs)])[0].logits
        except torch.OutOfMemoryError:
            raise
        except (AttributeError, IndexError, KeyError, TypeError, ValueError, RuntimeError) as error:
            raise architecture.unsupported(kind, error) from error
        rows = [0, *range(2, len(made))]  # row 1 is the branch that the text does not take
        architecture.compare(torch.cat([begun, made[rows]]), stock[half - 1 :], kind)

    def scaling(self, layer: int) -> float:
        """What one layer's attention multiplies query-key products with before the softmax."""
        own = getattr(self.model.get_decoder().layers[layer].self_attn, "scaling", None)
        return float(own) if own is not None else float(self.head_dim**-0.5)

    def wait(self) -> None:
        """Return once the device is done with what it was given: before that its time cannot be told."""
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)

    def prefill(
        self, ids: Sequence[int], cache: KVCache, required_outputs: RequiredOutputs = NOTHING
    ) -> ForwardOutputs:
        """Process prompt tokens behind what the cache holds and keep them, in passes of their own.

        Args:
            ids: at least one token id; position of the first is `cache.length`.

        Returns:
            ForwardOutputs of all rows; logits and queries of the last row only.
        """
        if not ids:
            raise ValueError("prefill needs at least one token")
        parts = []
        for start in range(0, len(ids), PREFILL_CHUNK):
            parts += self.forward_tree([PromptChunk(cache, ids[start : start + PREFILL_CHUNK], required_outputs)])
            cache.keep_all()
        return ForwardOutputs.joined(parts)

    @torch.inference_mode()
    def forward_tree(self, batch: Sequence[TreePass | PromptChunk]) -> list[ForwardOutputs]:
        """One target pass over the roots and draft trees, or the next prompt tokens, of all sequences.

        The rows of a tree are [root, node 0, node 1, ..., masks] at positions cache.length + depth. Afterwards every
        cache has its rows pending; `keep` says which stay, of a prompt chunk all (`keep_all`), of masks none.

        Returns:
            one ForwardOutputs a sequence, in order; a chunk's has its last row's logits and queries only.

        Raises ValueError for adaptive rows where the target has no adapters or too few masks.
        """
        ids: list[int] = []  # [T], all sequences in one line
        positions: list[int] = []  # [T]
        needed: list[int] = []  # rows whose logits are read
        adaptive: list[int] = []  # rows of masks
        numbers: list[int] = []  # which mask each of them is
        points: list[int] = []  # rows that they hang behind
        spans: list[attention.Span] = []
        required_outputs = NOTHING
        for part in batch:
            start, base = len(ids), part.cache.length
            if isinstance(part, PromptChunk):
                ids += part.ids
                positions += range(base, base + len(part.ids))
                needed.append(len(ids) - 1)
            else:
                ids += [part.root, *part.tree.tokens]
                positions += [base, *(base + depth for depth in part.tree.depths)]
                needed += range(start, len(ids))
                adaptive += range(len(ids), len(ids) + len(part.masks))
                numbers += part.masks.numbers
                points += [start + row for row in part.masks.point_rows]
                ids += [0] * len(part.masks)  # their vectors come from the adapters
                positions += [base + depth for depth in part.masks.depths(part.tree)]
            part.cache.reserve(len(ids) - start)
            spans.append(attention.Span(part.cache, start, len(ids), self._mask(part)))
            required_outputs |= part.required_outputs
        masks = self._adaptive(adaptive, numbers, points)
        whole = self._forward(ids, positions, spans, required_outputs, needed, masks)
        made, row, mask = [], 0, 0
        for part, span in zip(batch, spans, strict=True):
            extra = 0 if isinstance(part, PromptChunk) else len(part.masks)
            rows = 1 if isinstance(part, PromptChunk) else span.stop - span.start - extra
            made.append(whole.part(part.required_outputs, span.start, span.stop - extra, row, row + rows))
            if masks is not None and isinstance(part, TreePass) and extra:
                made[-1] = replace(made[-1], masks=MaskRows(part.masks, masks.states[mask : mask + extra]))
            row, mask = row + rows, mask + extra
        return made

    def _adaptive(self, rows: list[int], numbers: list[int], points: list[int]) -> AdaptiveRows | None:
        if not rows:
            return None
        if self.adapters is None or max(numbers) >= self.adapters.length:
            raise ValueError("a pass with masks needs a target with adapters for as many; see TargetModel.adapters")
        return AdaptiveRows(self.adapters, self.model, rows, numbers, points)

    def _forward(
        self,
        ids: Sequence[int],
        positions: list[int],
        spans: list[attention.Span],
        required_outputs: RequiredOutputs,
        needed: list[int],
        masks: AdaptiveRows | None = None,
    ) -> ForwardOutputs:
        """Logits [len(needed), V], of the rows in `needed`; the rest of the artifacts of all T rows."""
        cache = attention.PassCache(spans, required_outputs.queries)
        tokens = torch.tensor([ids], device=self.device)
        inputs = {"input_ids": tokens} if masks is None else {"inputs_embeds": masks.embeddings(tokens)}
        acting = nullcontext() if masks is None else masks.acting()
        with (
            self._kept_hidden(required_outputs.hidden) as hidden,
            self._kept_features(required_outputs.features) as kept,
            packed_passes(),
            acting,
        ):
            output = self.model(
                **inputs,
                position_ids=torch.tensor([positions], device=self.device),
                past_key_values=cache,
                pass_cache=cache,
                use_cache=True,
                logits_to_keep=0 if len(needed) == len(ids) else torch.tensor(needed, device=self.device),  # 0: all
            )
        return ForwardOutputs(output.logits[0], hidden, cache.queries, kept[0] if kept else None)

    @contextmanager
    def _kept_hidden(self, layers: frozenset[int]) -> Iterator[dict[int, torch.Tensor]]:
        """Collect the output of decoder layers, [T, D] each, while a pass runs; no hooks where none is asked for."""
        hidden: dict[int, torch.Tensor] = {}

        def keep(layer: int) -> Any:
            def hook(_module: Any, _inputs: Any, output: Any) -> None:
                hidden[layer] = (output[0] if isinstance(output, tuple) else output)[0]

            return hook

        blocks = self.model.get_decoder().layers if layers else ()
        hooks = [blocks[layer].register_forward_hook(keep(layer)) for layer in sorted(layers)]
        try:
            yield hidden
        finally:
            for hook in hooks:
                hook.remove()

    @contextmanager
    def _kept_features(self, wanted: bool) -> Iterator[list[torch.Tensor]]:
        """Collect what the decoder hands to the head, [T, D], while a pass runs; no hook where it is not asked for."""
        kept: list[torch.Tensor] = []
        hook = (
            self.model.get_decoder().register_forward_hook(lambda _module, _inputs, output: kept.append(output[0][0]))
            if wanted
            else None
        )
        try:
            yield kept
        finally:
            if hook is not None:
                hook.remove()

    def _chunk_mask(self, cache: KVCache, rows: int) -> torch.Tensor | None:
        if cache.length == 0 or rows == 1:
            return None
        return torch.ones(rows, cache.length + rows, dtype=torch.bool, device=self.device).tril_(cache.length)

    def _mask(self, part: TreePass | PromptChunk) -> torch.Tensor | None:
        """bool [rows, cached + rows], None where `attention.Span` needs none."""
        if isinstance(part, PromptChunk):
            return self._chunk_mask(part.cache, len(part.ids))
        rows = part.rows
        if not part.masks and (part.tree.is_chain or rows == 1):
            return self._chunk_mask(part.cache, rows)
        mask = torch.ones(rows, part.cache.length + rows, dtype=torch.bool, device=self.device)
        own = part.masks.mask(part.tree) if part.masks else part.tree.mask()
        mask[:, part.cache.length :] = torch.from_numpy(own).to(self.device)
        return mask
