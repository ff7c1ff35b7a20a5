"""Adapters for adaptive rows: learned mask vectors, and low-rank additions that act at the rows of masks alone.

SDSAT (arXiv 2403.18647) fine-tunes the whole model so that it can read its adaptive tokens. Here the model stays as it
is: the masks enter as vectors of their own through `inputs_embeds`, and every linear layer adds `up @ down @ x` at
their rows and nowhere else. Ordinary rows are computed by the unchanged target, bit for bit as in a pass of the same
shape without adapters, and a pass without adaptive rows has no hook and runs as if there were no adapters.

A coupler (`conditioner.py`) may lie between the rows and the drafts that are read off them.

Knows a stock model's linear layers and rows of a pass; knows no tree, no sequence and no file (`adapter_files.py`).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.nn.functional as F

from decoder.model.conditioner import NAMES, Coupler
from decoder.model.packed_linear import PackedLinear, pack, packed_passes

LINEARS = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")
"""Linear layers of a decoder layer that adapters can act on."""
MASKS, DOWN, UP, TOKENS = "masks", ".down", ".up", "tokens"
COUPLER = "coupler."


@dataclass(slots=True)
class Adapters:
    """Weights for adaptive rows of one model.

    Attributes:
        masks: [k, D], what enters in place of a token's embedding, by place in the chain.
        pairs: name of a linear layer -> (down [r, in], up [out, r]).
        coupler: None where drafts are read off the rows as they are.
        tokens: int64 [n], the target's ids that can be drafted, ascending; all where None.
    """

    masks: torch.Tensor
    pairs: dict[str, tuple[torch.Tensor, torch.Tensor]] = field(default_factory=dict)
    coupler: Coupler | None = None
    tokens: torch.Tensor | None = None
    _head: _Rows | None = None
    """The target's output rows of `tokens`, once they were asked for."""

    @property
    def length(self) -> int:
        """k, the longest chain."""
        return len(self.masks)

    @property
    def rank(self) -> int:
        return max((len(down) for down, _ in self.pairs.values()), default=0)

    @property
    def nbytes(self) -> int:
        """Memory in bytes once drafts are read: weights, the output rows of `tokens`, and a packed copy of these."""
        gathered = 0 if self.tokens is None else len(self.tokens) * self.masks[0].nbytes
        packed = self._head is not None and isinstance(self._head.rows, PackedLinear)
        return gathered * (1 + packed) + sum(tensor.nbytes for tensor in self.tensors().values())

    @classmethod
    def fresh(
        cls,
        model: Any,
        length: int = 4,
        rank: int = 16,
        linears: Sequence[str] = LINEARS,
        coupler: int = 0,
        seed: int = 0,
        tokens: torch.Tensor | None = None,
    ) -> Adapters:
        """Untrained adapters: `up` is zero, masks lie near the mean embedding. float32.

        Args:
            model: a stock causal LM.
            length: masks of a chain at most.
            rank: of every low-rank addition; 0 trains masks alone.
            linears: which of LINEARS get one.
            coupler: hidden units of the coupler; 0 for none.
            tokens: int64, ids that can be drafted, ascending; all where None.

        Raises ValueError for sizes out of range and layers that the model does not have.
        """
        if length < 1 or rank < 0 or coupler < 0:
            raise ValueError(f"length must be 1 or more, rank and coupler 0 or more; got {length}, {rank}, {coupler}")
        found = linears_of(model, linears)
        source = torch.Generator().manual_seed(seed)
        embeddings = model.get_input_embeddings().weight.detach().to("cpu", torch.float32)
        width = embeddings.shape[1]
        masks = embeddings.mean(0) + 0.5 * embeddings.std(0) * torch.randn(length, width, generator=source)

        def random(rows: int, columns: int) -> torch.Tensor:
            return torch.randn(rows, columns, generator=source) / math.sqrt(columns)

        pairs = {
            name: (random(rank, layer.in_features), torch.zeros(layer.out_features, rank))
            for name, layer in found.items()
            if rank
        }
        made = Coupler.fresh(length, width, coupler, source) if coupler else None
        return cls(masks, pairs, made, tokens).to(model.device, torch.float32)

    def to(self, device: torch.device, dtype: torch.dtype) -> Adapters:
        """The same weights elsewhere."""
        moved = {name: tensor.to(device, None if name == TOKENS else dtype) for name, tensor in self.tensors().items()}
        return Adapters.of(moved)

    def tensors(self) -> dict[str, torch.Tensor]:
        """All weights by name, in a fixed order."""
        named = {MASKS: self.masks}
        for name, (down, up) in self.pairs.items():
            named |= {name + DOWN: down, name + UP: up}
        if self.tokens is not None:
            named[TOKENS] = self.tokens
        coupler = {} if self.coupler is None else self.coupler.tensors()
        return named | {COUPLER + name: tensor for name, tensor in coupler.items()}

    def weights(self) -> dict[str, torch.Tensor]:
        """Those of `tensors` that are trained."""
        return {name: tensor for name, tensor in self.tensors().items() if name != TOKENS}

    @classmethod
    def of(cls, tensors: Mapping[str, torch.Tensor]) -> Adapters:
        """Back from `tensors`. Raises KeyError where one is missing."""
        names = [name.removesuffix(DOWN) for name in tensors if name.endswith(DOWN)]
        coupler = None
        if any(name.startswith(COUPLER) for name in tensors):
            coupler = Coupler(*(tensors[COUPLER + name] for name in NAMES))
        pairs = {name: (tensors[name + DOWN], tensors[name + UP]) for name in names}
        return cls(tensors[MASKS], pairs, coupler, tensors.get(TOKENS))

    def logits(self, model: Any, states: torch.Tensor) -> torch.Tensor:
        """[n, D], rows behind the final norm -> [n, tokens], by the model's own output matrix."""
        if self._head is None and self.tokens is not None:
            self._head = _Rows(model.get_output_embeddings(), self.tokens)
            pack(self._head)
        rows: torch.nn.Linear = model.get_output_embeddings() if self._head is None else self._head.rows
        with packed_passes():
            return rows(states)  # type: ignore[no-any-return]

    def delta(self, name: str, inputs: torch.Tensor) -> torch.Tensor:
        """What a linear layer adds at adaptive rows: [..., in] -> [..., out]."""
        down, up = self.pairs[name]
        return F.linear(F.linear(inputs, down.to(inputs.dtype)), up.to(inputs.dtype))

    def told(self, numbers: Sequence[int], rows: torch.Tensor, points: torch.Tensor) -> torch.Tensor:
        """What masks tell, the token before aside.

        Args:
            numbers: each one's mask, n of them.
            rows: [n, D], theirs behind the final norm.
            points: [n, D], of what their chains hang behind.

        Returns:
            [n, D]; `rows` themselves without a coupler.
        """
        if self.coupler is None:
            return rows
        made = torch.empty_like(rows)
        for mask in sorted(set(numbers)):
            own = torch.tensor([row for row, number in enumerate(numbers) if number == mask], device=rows.device)
            made[own] = self.coupler.told(mask, rows[own], points[own])
        return made

    def combined(self, mask: int, states: torch.Tensor, before: torch.Tensor) -> torch.Tensor:
        """States of one mask that know the token before the one they tell: [..., D] from `told`, and that token's
        embedding [..., D] -> [..., D]; `states` themselves without a coupler."""
        if self.coupler is None:
            return states
        return self.coupler.combined(mask, states, before.to(states.dtype))


class _Rows(torch.nn.Module):
    """Some rows of an output matrix, gathered once."""

    def __init__(self, output: torch.nn.Linear, tokens: torch.Tensor) -> None:
        super().__init__()
        weight = output.weight.detach()[tokens]
        self.dtype, self.device = weight.dtype, weight.device
        self.rows = torch.nn.Linear(weight.shape[1], weight.shape[0], output.bias is not None, device="meta")
        self.rows.weight = torch.nn.Parameter(weight, requires_grad=False)
        if output.bias is not None:
            self.rows.bias = torch.nn.Parameter(output.bias.detach()[tokens], requires_grad=False)


def linears_of(model: Any, linears: Sequence[str] = LINEARS) -> dict[str, torch.nn.Linear]:
    """A model's linear layers by name, "layers.0.self_attn.q_proj" and so on, in the order they run.

    Raises ValueError for names not in LINEARS and layers that the model lacks.
    """
    if unknown := sorted(set(linears) - set(LINEARS)):
        raise ValueError(f"adapters act on {', '.join(LINEARS)}; there is no {', '.join(unknown)}")
    found = {
        name: module
        for name, module in model.get_decoder().named_modules()
        if isinstance(module, torch.nn.Linear) and name.rpartition(".")[2] in linears
    }
    if missing := sorted(set(linears) - {name.rpartition(".")[2] for name in found}):
        raise ValueError(f"this model has no {', '.join(missing)}; leave them out of the adapted layers")
    return found


class AdaptiveRows:
    """The adaptive rows of one pass, all sequences together.

    Args:
        rows: their places in the pass, ascending.
        numbers: each one's mask.
        points: the rows that their chains hang behind.

    Attributes:
        states: [m, D], what they tell (`Adapters.told`), once the pass is through.
    """

    def __init__(
        self, adapters: Adapters, model: Any, rows: Sequence[int], numbers: Sequence[int], points: Sequence[int]
    ) -> None:
        self._adapters = adapters
        self._model = model
        self._numbers = numbers
        self._points = torch.tensor(points, device=model.device)
        in_one_run = rows[-1] - rows[0] == len(rows) - 1
        self._run = slice(rows[0], rows[-1] + 1) if in_one_run else None
        self._rows = None if in_one_run else torch.tensor(rows, device=model.device)
        self.states = adapters.masks.new_empty(0)

    def embeddings(self, ids: torch.Tensor) -> torch.Tensor:
        """What enters the model: [1, T] token ids, any at adaptive rows -> [1, T, D]."""
        embeddings: torch.Tensor = self._model.get_input_embeddings()(ids)
        masks = self._adapters.masks[list(self._numbers)].to(embeddings.dtype)
        embeddings[0, self._run if self._rows is None else self._rows] = masks
        return embeddings

    @contextmanager
    def acting(self) -> Iterator[None]:
        """Let the adapters act at their rows while a pass runs."""
        decoder = self._model.get_decoder()
        hooks = [decoder.register_forward_hook(self._keep)]
        for name in self._adapters.pairs:
            hooks.append(decoder.get_submodule(name).register_forward_hook(self._adding(name)))
        try:
            yield
        finally:
            for hook in hooks:
                hook.remove()

    def _of(self, rows: torch.Tensor) -> torch.Tensor:
        """The adaptive ones of all rows: [1, T, d] -> [m, d]."""
        return rows[0, self._run] if self._rows is None else rows[0].index_select(0, self._rows)

    def _keep(self, _module: Any, _inputs: Any, output: Any) -> None:
        states = output.last_hidden_state
        self.states = self._adapters.told(self._numbers, self._of(states), states[0].index_select(0, self._points))

    def _adding(self, name: str) -> Any:
        down, up = self._adapters.pairs[name]

        def hook(_module: Any, inputs: tuple[torch.Tensor], output: torch.Tensor) -> None:
            low = F.linear(self._of(inputs[0]), down)
            if self._rows is None:
                output[0, self._run].addmm_(low, up.T)  # a view: other rows are not touched
            else:
                output[0].index_add_(0, self._rows, F.linear(low, up))

        return hook
