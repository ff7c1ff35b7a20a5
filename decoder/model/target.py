"""TargetModel: runs the model whose output must be preserved, one pass at a time.

Knows the stock transformers model, caches and trees; knows no drafter, no sampling, no text.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

import torch

from decoder.drafts.mask_chains import MaskRows
from decoder.drafts.tree import ROOT, DraftTree, TokenSource
from decoder.model import architecture, attention
from decoder.model import bitwise as bits
from decoder.model.adapters import Adapters, AdaptiveRows, Hook
from decoder.model.forward_outputs import NOTHING, ForwardOutputs, RequiredOutputs
from decoder.model.graphs.graphed_passes import GraphedPasses
from decoder.model.kv_cache import KVCache
from decoder.model.layers import decoder_layer, gated_mlp, rms_norm, rotary_attention
from decoder.model.linear import joint
from decoder.model.linear.packed_linear import kept_bytes, pack, packed_passes
from decoder.model.linear.quantise import formats_of
from decoder.model.pass_parts import PromptChunk, TreePass
from decoder.model.paths import path_attention
from decoder.model.paths.paths import Paths

PREFILL_CHUNK = 512
"""Most prompt tokens in a prefill pass; bounds the memory of its activations."""
MAX_PATHS = 96
"""Most rows of a draft whose attention goes along their paths, and not through the stock kernel, unless passes are
bitwise; and of a prompt where the stock kernel has matrix units."""
PIECE = 32
"""Rows of a prompt whose attention is computed at once: those behind it see all of its keys."""
MAX_SCORES = 1 << 24
"""Most float32 scores of these in memory at once."""


class TargetModel:
    """A stock causal language model run over trees of several sequences at once.

    Args:
        model: a transformers causal LM that uses the attention interface (Llama, Qwen2, Qwen3, Mistral, ...), on its
            device and in its dtype; it is switched to `decoder.model.attention` and to eval mode.
        bitwise: whether a row's logits shall have the same bits in every pass (`bitwise.py`); None: where that costs
            nothing.
        graphs: whether a GPU may run decode passes as CUDA graphs (`graphs/`).

    Raises:
        UnsupportedModel: the model's attention cannot take a tree mask (sliding windows, soft-capping, no cache), or a
            trial pass differs from the stock model.
        BitwiseUnavailable: bitwise passes are asked for, and not possible here.
    """

    def __init__(self, model: Any, bitwise: bool | None = False, graphs: bool = True) -> None:
        config = model.config
        architecture.check(config)
        model.eval().requires_grad_(False)
        fresh = config._attn_implementation != attention.NAME
        stock = architecture.stock_logits(model) if fresh else None
        model.set_attn_implementation(attention.NAME)
        self.packed: int = pack(model)
        """Number of linear layers with packed or tiled weights."""
        self.norms: int = rms_norm.speed_up(model)
        """Number of norms that machine code computes."""
        self.joint: int = joint.join(model)
        """Number of products of several layers."""
        self.gates: int = gated_mlp.speed_up(model)
        """Number of MLPs whose gates machine code computes."""
        self.rotations: int = rotary_attention.speed_up(model)
        """Number of attention layers for which machine code rotates."""
        self._prepared = decoder_layer.speed_up(model)
        """Decoder layers as prepared calls."""
        self.bitwise: bool = bits.is_free(model) if bitwise is None else bitwise
        if self.bitwise:
            bits.make_bitwise(model)
        self.integer_formats: frozenset[str] = formats_of(model)
        """Number formats of its linear layers of integers."""
        self.original_fingerprint: str | None = None
        """Fingerprint of the weights before they became integers."""
        self.adapters: Adapters | None = None
        """Weights for adaptive rows, in the model's dtype."""
        self.model = model
        self.vocab_size: int = config.vocab_size
        self.max_positions: int = architecture.positions(config)
        """The model's window, which prompt and answer must fit."""
        self.layers: int = config.num_hidden_layers
        self.heads: int = config.num_attention_heads
        """Query heads per layer."""
        self.kv_heads: int = getattr(config, "num_key_value_heads", None) or config.num_attention_heads
        self.head_dim: int = architecture.head_dim(config)
        self.dtype: torch.dtype = model.dtype
        self.device: torch.device = model.device
        on_cpu = self.device.type == "cpu"
        self.along_paths: bool = on_cpu and path_attention.available(self.dtype, self.head_dim)
        """Whether attention may go along paths."""
        self.graphs: GraphedPasses | None = None
        """The decode passes as graphs; None if they run without."""
        self.graphs_problem = "they are for GPUs, in 16 and 32 bits" if graphs else "they are switched off"
        """Why there are no graphs."""
        if stock is not None:
            self._check_trial(stock)
        if graphs and self.device.type == "cuda" and self.dtype.itemsize <= 4 and not self.bitwise:
            self._set_up_graphs(stock)

    @property
    def number_format(self) -> str:
        """The format of its weights as `load_engine` names it."""
        return min(self.integer_formats, default=str(self.dtype).removeprefix("torch."))  # int4 has int8 layers, too

    @property
    def nbytes(self) -> int:
        """Bytes of its weights and packed copies."""
        tensors: dict[int, int] = {}
        for tensor in (*self.model.parameters(), *self.model.buffers()):
            tensors[id(tensor)] = tensor.nbytes
        return sum(tensors.values()) + kept_bytes(self.model)

    @property
    def prepared(self) -> int:
        """Number of decoder layers that run as prepared calls."""
        return len(self._prepared)

    @property
    def captured(self) -> int:
        """The number of graphs, or of layers' calls, so far. A pass that makes some takes longer than others of its
        size."""
        return sum(calls.count for calls in self._prepared) if self.graphs is None else len(self.graphs)

    def new_cache(self, capacity: int) -> KVCache:
        """An empty cache with room for `capacity` rows."""
        return KVCache(self.layers, self.kv_heads, self.head_dim, capacity, self.dtype, self.device)

    def _set_up_graphs(self, stock: torch.Tensor | None) -> None:
        """Use graphs if a trial pass with them agrees with the stock model, if its logits are at hand."""
        try:
            self.graphs = GraphedPasses(self.model, self.heads, self.kv_heads, self.head_dim)
            if stock is not None:
                self._check_trial(stock)
        except torch.OutOfMemoryError:
            raise
        except Exception as error:  # of kinds of its own, where a kernel cannot be compiled
            self.graphs, self.graphs_problem = None, f"{type(error).__name__}: {error}"

    def _check_trial(self, stock: torch.Tensor) -> None:
        """Compare passes over a prompt and a tree of two branches with the stock model's logits, [n, V]."""
        ids = architecture.trial_text(self.model.config)
        half, model_type = len(ids) // 2, self.model.config.model_type
        if half < 2:
            return  # too short for a tree
        tree = DraftTree()
        wrong, *right = [TokenSource("trial")] * (len(ids) - half)
        tree.add(ids[0], ROOT, wrong)
        tree.add_chain(ids[half + 1 :], right)
        required_outputs = RequiredOutputs(hidden=frozenset({0, self.layers - 1}), features=True)
        try:
            cache = self.new_cache(len(ids) + 1)
            prompt_logits = self.prefill(ids[:half], cache, required_outputs).logits
            tree_logits = self.forward_tree([TreePass(cache, ids[half], tree, required_outputs)])[0].logits
        except torch.OutOfMemoryError:
            raise
        except (AttributeError, IndexError, KeyError, TypeError, ValueError, RuntimeError) as error:
            raise architecture.unsupported(model_type, error) from error
        rows = [0, *range(2, len(tree_logits))]  # row 1 is the branch that is not in the trial text
        architecture.compare(torch.cat([prompt_logits, tree_logits[rows]]), stock[half - 1 :], model_type)

    def scaling(self, layer: int) -> float:
        """The factor of query-key products before the softmax, in one layer."""
        scaling = getattr(self.model.get_decoder().layers[layer].self_attn, "scaling", None)
        return float(scaling) if scaling is not None else float(self.head_dim**-0.5)

    def synchronize(self) -> None:
        """Wait until the device has finished its work, so that a pass can be timed."""
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)

    def prefill(
        self, ids: Sequence[int], cache: KVCache, required_outputs: RequiredOutputs = NOTHING
    ) -> ForwardOutputs:
        """Process prompt tokens in passes of their own, and keep their rows.

        Args:
            ids: at least one token id; the first has the position `cache.length`.
            cache: the sequence's cache.
            required_outputs: the outputs to keep.

        Returns:
            ForwardOutputs of all rows; logits and queries of the last row only.

        Raises:
            ValueError: there are no tokens.
        """
        if not ids:
            raise ValueError("there is nothing to prefill; give at least one token")
        parts = []
        for start in range(0, len(ids), PREFILL_CHUNK):
            parts += self.forward_tree([PromptChunk(cache, ids[start : start + PREFILL_CHUNK], required_outputs)])
            cache.keep_all()
        return ForwardOutputs.joined(parts)

    @torch.inference_mode()
    def forward_tree(self, batch: Sequence[TreePass | PromptChunk]) -> list[ForwardOutputs]:
        """One target pass over the roots and draft trees, or the next prompt tokens, of all sequences.

        The rows of a tree are [root, node 0, node 1, ..., masks] at positions cache.length + depth. After the pass,
        the rows are pending in the caches. `KVCache.keep` keeps the accepted ones; masks are never kept.

        Args:
            batch: one part per sequence.

        Returns:
            one ForwardOutputs per sequence, in order; that of a prompt chunk has logits and queries of its last row.

        Raises:
            ValueError: there are adaptive rows, but the target has no adapters or too few masks.
        """
        trees = [part for part in batch if isinstance(part, TreePass) and not part.masks]
        if self.graphs is not None and len(trees) == len(batch) and (groups := self.graphs.groups(trees)):
            return [outputs for group in groups for outputs in self._graphed(self.graphs, group)]
        ids: list[int] = []  # [T], all sequences concatenated
        positions: list[int] = []  # [T]
        needed: list[int] = []  # rows whose logits are read
        adaptive: list[int] = []  # rows of masks
        numbers: list[int] = []  # their mask numbers
        points: list[int] = []  # the rows of their points
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
                ids += [0] * len(part.masks)  # placeholders: the adapters replace their embeddings
                positions += [base + depth for depth in part.masks.depths(part.tree)]
            part.cache.reserve(len(ids) - start)
            paths = self._paths(part)
            spans.append(attention.Span(part.cache, start, len(ids), None if paths else self._mask(part), paths))
            required_outputs |= part.required_outputs
        masks = self._adaptive(adaptive, numbers, points)
        whole = self._forward(ids, positions, spans, required_outputs, needed, masks)
        results, row, mask = [], 0, 0
        for part, span in zip(batch, spans, strict=True):
            extra = 0 if isinstance(part, PromptChunk) else len(part.masks)
            rows = 1 if isinstance(part, PromptChunk) else span.stop - span.start - extra
            outputs = whole.part(part.required_outputs, span.start, span.stop - extra, row, row + rows)
            if masks is not None and isinstance(part, TreePass) and extra:
                outputs = replace(outputs, masks=MaskRows(part.masks, masks.states[mask : mask + extra]))
            results.append(outputs)
            row, mask = row + rows, mask + extra
        return results

    def _graphed(self, graphs: GraphedPasses, trees: list[TreePass]) -> list[ForwardOutputs]:
        """`forward_tree` as a graph."""
        whole, row, results = graphs.run(trees), 0, []
        for part in trees:
            stop = row + part.rows
            results.append(whole.part(part.required_outputs, row, stop, row, stop))
            row = stop
        return results

    def _adaptive(self, rows: list[int], numbers: list[int], points: list[int]) -> AdaptiveRows | None:
        if not rows:
            return None
        if self.adapters is None or max(numbers) >= self.adapters.length:
            raise ValueError("the target has no adapters for this many masks; set TargetModel.adapters, or draft fewer")
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
        """Run the model. Logits [len(needed), V] of the rows in `needed`; the other outputs of all T rows."""
        cache = attention.PassCache(spans, required_outputs.queries)
        tokens = torch.tensor([ids], device=self.device)
        inputs = {"input_ids": tokens} if masks is None else {"inputs_embeds": masks.embeddings(tokens)}
        decoder = self.model.get_decoder()
        hidden: dict[int, torch.Tensor] = {}  # layer -> [T, D]
        features: list[torch.Tensor] = []  # [T, D], if required

        def keep_hidden(layer: int) -> Hook:
            def hook(_module: Any, _inputs: Any, output: Any) -> None:
                hidden[layer] = (output[0] if isinstance(output, tuple) else output)[0]

            return hook

        kept = sorted(required_outputs.hidden | required_outputs.last)
        hooks = [(decoder.layers[layer], keep_hidden(layer)) for layer in kept]
        if required_outputs.features:
            hooks.append((decoder, lambda _module, _inputs, output: features.append(output[0][0])))
        if masks is not None:
            hooks += masks.hooks()
        with packed_passes(), ExitStack() as handles:
            for module, hook in hooks:
                handles.enter_context(module.register_forward_hook(hook))
            output = self.model(
                **inputs,
                position_ids=torch.tensor([positions], device=self.device),
                past_key_values=cache,
                pass_cache=cache,
                use_cache=True,
                logits_to_keep=0 if len(needed) == len(ids) else torch.tensor(needed, device=self.device),  # 0: all
            )
        return ForwardOutputs(output.logits[0], hidden, cache.queries, features[0] if features else None)

    def _paths(self, part: TreePass | PromptChunk) -> list[Paths]:
        """The paths of one sequence's rows, if its attention goes along them."""
        rows, cached = part.rows, part.cache.length
        scores = self.heads * (cached + rows)  # of a row
        if isinstance(part, PromptChunk):
            fast = self.head_dim % path_attention.LANES == 0 and not path_attention.has_matrix_units()
            along = self.along_paths and (self.bitwise or fast or rows <= MAX_PATHS)
            return list(Paths.pieces(cached, rows, min(PIECE, max(1, MAX_SCORES // scores)))) if along else []
        if not self.along_paths or not (self.bitwise or (rows <= MAX_PATHS and rows * scores <= MAX_SCORES)):
            return []
        return [Paths.of(cached, part.masks.mask(part.tree) if part.masks else part.tree.mask())]

    def _mask(self, part: TreePass | PromptChunk) -> torch.Tensor | None:
        """The mask of one sequence's rows: bool [rows, cached + rows], or None as in `attention.Span`."""
        rows, cached = part.rows, part.cache.length
        causal = isinstance(part, PromptChunk) or (part.tree.is_chain and not part.masks)
        if rows == 1 or (causal and not cached):
            return None
        mask = torch.ones(rows, cached + rows, dtype=torch.bool, device=self.device)
        if isinstance(part, PromptChunk) or causal:
            return mask.tril_(cached)
        pass_mask = part.masks.mask(part.tree) if part.masks else part.tree.mask()
        mask[:, cached:] = torch.from_numpy(pass_mask).to(self.device)
        return mask
