"""A decoder layer's pass over a few rows as calls of machine code that are prepared once, in bfloat16.

Running a layer's modules takes Python a fifth of a pass over one row. What they compute is computed by the same code
from the same numbers, so every bit is theirs. Calls are prepared for each number of rows. In a pass only addresses are
set: of its rows, and of keys and values.

Knows layers of Llama's form and their modules; knows no model and no tree.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from decoder.model.attention import PassCache, Span
from decoder.model.kv_cache import KVCache
from decoder.model.layers import addition, gated_mlp, rms_norm, rotary_attention
from decoder.model.layers.rotary_attention import Turns
from decoder.model.layers.scratch import ROWS, Reused, Scratch
from decoder.model.linear import joint
from decoder.model.linear.calls import Call, Calls
from decoder.model.paths import path_attention
from decoder.model.paths.paths import Paths

log = logging.getLogger(__name__)

FORMS = frozenset({"LlamaDecoderLayer", "MistralDecoderLayer", "Qwen2DecoderLayer", "Qwen3DecoderLayer"})
"""Classes of transformers that compute x + attention(norm(x)) and then x + mlp(norm(x)), and nothing else."""
_TRIAL_ROWS = 3


@dataclass(frozen=True, slots=True)
class Prepared:
    """The calls of a layer for a number of rows.

    Attributes:
        before: up to queries, keys and values.
        after: from attention's outcome on.
        projected: queries, keys and values, [rows, columns] each.
        attended: [rows, heads, dim].
        key: the same for those of other layers in the same memory.
        inputs, added, outputs: where the address of the layer's rows is among the fields of `before` and `after`, and
            that of its output among those of `after`.
    """

    before: Calls
    after: Calls
    projected: tuple[torch.Tensor, torch.Tensor, torch.Tensor]
    attended: torch.Tensor
    key: tuple[int, ...]
    inputs: NDArray[np.int64]
    added: NDArray[np.int64]
    outputs: NDArray[np.int64]


class Attending:
    """Rotation and attention of a pass, in the memory of some layers: only where keys and values are kept differs."""

    def __init__(self, prepared: Prepared, passing: PassCache, turns: Turns, dim: int, scaling: float) -> None:
        queries = prepared.projected[0].view(len(prepared.attended), -1, dim).transpose(0, 1)
        calls = [rotary_attention.call(span, 0, prepared.projected, turns, dim) for span in passing.spans]
        empty = Reused()
        for span in passing.spans:
            keys, values = (kept[0] for kept in span.cache.pending_too(0))
            for piece in span.paths:
                rows = slice(span.start + piece.first, span.start + piece.past)
                output = prepared.attended[rows]
                calls.append(path_attention.call(queries[:, rows], keys, values, piece, scaling, output, empty.anew()))
        self.turns = turns
        self._calls = Calls(calls)
        layers = [span.cache.layer(0) for span in passing.spans]
        places = [self._calls.places(layer) for layer in layers]
        self._places = np.concatenate(places)
        self._steps = np.repeat([layer.nbytes for layer in layers], [len(found) for found in places])
        self._first = self._calls.fields[self._places]

    def run(self, layer: int) -> None:
        self._calls.fields[self._places] = self._first + layer * self._steps
        self._calls.run()


class LayerCalls:
    """One layer's calls, for each number of rows and threads.

    Args:
        layer: its module.
        scratch: memory.
    """

    def __init__(self, layer: Any, scratch: Scratch) -> None:
        self._layer, self._scratch = layer, scratch
        self._modules = _modules(layer)
        self._prepared: dict[tuple[int, int], Prepared] = {}

    def __getstate__(self) -> dict[str, Any]:  # addresses are not a copy's
        return {**self.__dict__, "_prepared": {}}

    @property
    def count(self) -> int:
        """Of rows and threads, for how many it has calls."""
        return len(self._prepared)

    def forward(self, hidden_states: torch.Tensor, *arguments: Any, **options: Any) -> Any:
        """What the layer's `forward` becomes."""
        turns: Any = options.get("position_embeddings")
        passing: Any = options.get("past_key_values")
        if not arguments and turns is not None and self._fits(hidden_states, turns, passing):
            return self.run(hidden_states, turns, passing)
        return type(self._layer).forward(self._layer, hidden_states, *arguments, **options)

    def apply(self, *arguments: Any, **options: Any) -> Any:
        """What the layer's `_apply` becomes, which moves weights or changes their format: its modules run from then
        on."""
        del self._layer.forward, self._layer._apply
        self._prepared.clear()
        return self._layer._apply(*arguments, **options)

    def _fits(self, rows: torch.Tensor, turns: Turns, passing: Any) -> bool:
        """Whether the calls are for a pass, and the modules that they stand for are as they were."""
        if rows.dim() != 3 or rows.shape[1] > ROWS or not rows.is_contiguous():
            return False
        if not rotary_attention.fits(rows, turns, passing, self._layer.self_attn.head_dim):
            return False
        return all(
            owner[name] is module
            and module._parameters.get("weight") is weight
            and module.__dict__.get("forward") is forward
            and not module._forward_hooks
            and not module._forward_pre_hooks
            for owner, name, module, weight, forward in self._modules
        )

    def run(self, rows: torch.Tensor, turns: Turns, passing: PassCache) -> torch.Tensor:
        """The layer's outcome for rows [1, T, D] that the calls are for."""
        attention, key = self._layer.self_attn, (rows.shape[1], torch.get_num_threads())
        dim, number = attention.head_dim, attention.layer_idx
        if (prepared := self._prepared.get(key)) is None:
            prepared = self._prepared[key] = self._prepare(rows.shape[1])
        attending = passing.prepared.get(prepared.key)
        if attending is None or attending.turns is not turns:
            attending = Attending(prepared, passing, turns, dim, attention.scaling)
            passing.prepared[prepared.key] = attending
        output = torch.empty_like(rows)
        prepared.before.fields[prepared.inputs] = prepared.after.fields[prepared.added] = rows.data_ptr()
        prepared.after.fields[prepared.outputs] = output.data_ptr()
        prepared.before.run()
        attending.run(number)
        if number in passing.keep_queries:
            passing.queries[number] = prepared.projected[0].view(rows.shape[1], -1, dim).clone()
        prepared.after.run()
        return output

    def _prepare(self, count: int) -> Prepared:
        """The calls for so many rows.

        Raises:
            AttributeError, RuntimeError: there is no code for one of them.
        """
        layer, attention, mlp = self._layer, self._layer.self_attn, self._layer.mlp
        empty, dtype = self._scratch.anew(), layer.input_layernorm.weight.dtype
        rows, normed, summed, output = (empty(count, attention.q_proj.in_features, dtype=dtype) for _ in range(4))
        before, projected = joint.calls([attention.q_proj, attention.k_proj, attention.v_proj], normed, empty)
        for number, name in enumerate(("q_norm", "k_norm")):
            if hasattr(attention, name):
                made = empty(*projected[number].shape, dtype=dtype)
                before.append(_normalised(getattr(attention, name), projected[number], made))
                projected[number] = made
        attended = empty(count, attention.o_proj.in_features, dtype=dtype)
        mixing, (mixed,) = joint.calls([attention.o_proj], attended, empty)
        opening, (gate, up) = joint.calls([mlp.gate_proj, mlp.up_proj], normed, empty)
        gated = empty(*gate.shape, dtype=dtype)
        closing, (added,) = joint.calls([mlp.down_proj], gated, empty)
        queries, keys, values = projected
        start = Calls([_normalised(layer.input_layernorm, rows, normed), *before])
        end = Calls(
            [
                *mixing,
                addition.call(rows, mixed, summed),
                _normalised(layer.post_attention_layernorm, summed, normed),
                *opening,
                gated_mlp.call(gate, up, gated),
                *closing,
                addition.call(summed, added, output),
            ]
        )
        return Prepared(
            start,
            end,
            (queries, keys, values),
            attended.view(count, -1, attention.head_dim),
            tuple(number for one in (*projected, attended) for number in (one.data_ptr(), one.stride(0))),
            start.places(rows),
            end.places(rows),
            end.places(output),
        )


def speed_up(model: Any) -> list[LayerCalls]:
    """Let prepared calls compute a model's decoder layers, if they are for them: of Llama's form, with norms, rotation
    and gates in machine code, and products too. Each layer is tried.

    Their modules stay, and compute as before in wider passes, where one of them got a hook or was replaced, and where
    a gradient is asked for. Numbers that are written to their weights count; a weight's other memory (`weight.data`)
    does not.

    Returns:
        those of all layers, or none.
    """
    scratch = Scratch()
    layers = [
        module
        for module in model.modules()
        if type(module).__name__ in FORMS and "forward" not in module.__dict__ and _in_code(module)
    ]
    made = [LayerCalls(layer, scratch) for layer in layers]
    if not all(_computes_alike(model, *pair) for pair in zip(layers, made, strict=True)):
        return []
    for layer, calls in zip(layers, made, strict=True):
        layer.forward, layer._apply = calls.forward, calls.apply
    return made


def _in_code(layer: Any) -> bool:
    """Whether machine code computes what is between a layer's products."""
    attention = layer.self_attn
    norms = [layer.input_layernorm, layer.post_attention_layernorm]
    norms += [getattr(attention, name) for name in ("q_norm", "k_norm") if hasattr(attention, name)]
    columns = attention.q_proj.in_features
    return (
        columns % addition.COLUMNS == 0
        and all(rms_norm.speeds_up(norm) for norm in norms)
        and rotary_attention.speeds_up(attention)
        and gated_mlp.speeds_up(layer.mlp)
    )


@torch.no_grad()
def _computes_alike(model: Any, layer: Any, calls: LayerCalls) -> bool:
    """Whether a layer's modules give what its calls would, bit by bit, and keep the same keys and values."""
    attention, found = layer.self_attn, []
    width, dim = attention.q_proj.in_features, attention.head_dim
    rows = torch.linspace(-3.0, 3.0, _TRIAL_ROWS * width).sin().bfloat16().view(1, _TRIAL_ROWS, width)
    paths = [Paths.of(0, np.tri(_TRIAL_ROWS, dtype=np.bool_))]
    try:
        turns = model.get_decoder().rotary_emb(rows, torch.arange(5, 5 + _TRIAL_ROWS)[None])
        heads = attention.k_proj.out_features // dim
        for ours in (False, True):
            kept = KVCache(attention.layer_idx + 1, heads, dim, _TRIAL_ROWS, rows.dtype, rows.device)
            kept.reserve(_TRIAL_ROWS)
            passing = PassCache([Span(kept, 0, _TRIAL_ROWS, None, paths)])
            output = (
                calls.run(rows, turns, passing)
                if ours
                else layer(rows, position_embeddings=turns, past_key_values=passing, pass_cache=passing)
            )
            found.append((output, *kept.pending_too(attention.layer_idx)))
        return all(torch.equal(*pair) for pair in zip(*found, strict=True))
    except (TypeError, ValueError, RuntimeError, AttributeError, ImportError) as problem:  # another version's form
        log.info("decoder layers run by their modules: %s", problem)
        return False


def _normalised(norm: Any, rows: torch.Tensor, output: torch.Tensor) -> Call:
    return rms_norm.call(rows, norm.weight, norm.variance_epsilon, output)


def _modules(layer: Any) -> list[tuple[Any, ...]]:
    """The modules that a layer's calls stand for: where each is kept, under which name, and what it is as yet."""
    owners = (layer._modules, layer.self_attn._modules, layer.mlp._modules)
    return [
        (owner, name, module, module._parameters.get("weight"), module.__dict__.get("forward"))
        for owner in owners
        for name, module in owner.items()
    ]
