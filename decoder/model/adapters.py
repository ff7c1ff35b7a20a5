"""Adapters for adaptive rows: learned mask vectors, and low-rank additions at the rows of masks only.

SDSAT (arXiv 2403.18647), section 2.2, fine-tunes the whole model to read its adaptive tokens. Here the model is
unchanged: masks enter as vectors through `inputs_embeds`, and every linear layer adds `up @ down @ x` at their rows.
Ordinary rows are bit-identical to those of a pass of the same shape without adapters. A pass without adaptive rows has
no hooks.

A conditioner (`conditioner.py`) can condition the adaptive rows before drafts are read off them.

Knows a stock model's linear layers and rows of a pass; knows no tree, no sequence and no file (`adapter_files.py`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.nn.functional as F

from decoder.model.conditioner import NAMES, Conditioner
from decoder.model.linear.integer_linear import IntegerLinear
from decoder.model.linear.packed_linear import kept_bytes, pack, packed_passes
from decoder.model.linear.quantise import rows_of

LINEARS = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")
"""Linear layers of a decoder layer that adapters can act on."""
MASKS, DOWN, UP, TOKENS = "masks", ".down", ".up", "tokens"
CONDITIONER = "coupler."

Hook = Callable[[Any, Any, Any], None]
"""A forward hook: (module, inputs, output)."""


@dataclass(slots=True)
class Adapters:
    """Weights for adaptive rows of one model.

    Attributes:
        masks: [k, D], the vectors that replace a token's embedding, by index in the chain.
        pairs: name of a linear layer -> (down [r, in], up [out, r]).
        conditioner: None if drafts are read off the rows as they are.
        tokens: int64 [n], the target's token ids that can be drafted, ascending; None for all.
    """

    masks: torch.Tensor
    pairs: dict[str, tuple[torch.Tensor, torch.Tensor]] = field(default_factory=dict)
    conditioner: Conditioner | None = None
    tokens: torch.Tensor | None = None
    _head: torch.nn.Linear | None = None
    """The target's output rows of `tokens`; set when `logits` first needs them."""

    @property
    def length(self) -> int:
        """k, the most masks in a chain."""
        return len(self.masks)

    @property
    def rank(self) -> int:
        """The largest rank of the low-rank additions; 0 without any."""
        return max((len(down) for down, _ in self.pairs.values()), default=0)

    @property
    def nbytes(self) -> int:
        """Bytes in use while drafting: the weights, and the output rows of `tokens`, with a packed copy if any."""
        own = sum(tensor.nbytes for tensor in self.tensors().values())
        if self._head is None:
            return own + (0 if self.tokens is None else len(self.tokens) * self.masks[0].nbytes)
        return own + sum(weight.nbytes for weight in self._head.parameters()) + kept_bytes(self._head)

    @classmethod
    def fresh(
        cls,
        model: Any,
        length: int = 4,
        rank: int = 16,
        linears: Sequence[str] = LINEARS,
        conditioner: int = 0,
        seed: int = 0,
        tokens: torch.Tensor | None = None,
    ) -> Adapters:
        """Untrained adapters, float32: `up` is zero, masks are near the mean embedding.

        Args:
            model: a stock causal LM.
            length: most masks in a chain.
            rank: of every low-rank addition; 0 for masks without additions.
            linears: the names in LINEARS that get an addition.
            conditioner: hidden units of the conditioner; 0 for no conditioner.
            seed: of the random weights.
            tokens: int64, token ids that can be drafted, ascending; None for all.

        Raises:
            ValueError: a size is out of range, or the model lacks a layer.
        """
        if length < 1 or rank < 0 or conditioner < 0:
            raise ValueError(
                f"length must be 1 or more, rank and conditioner 0 or more; got {length}, {rank}, {conditioner}"
            )
        source = torch.Generator().manual_seed(seed)
        embeddings = model.get_input_embeddings().weight.detach().to("cpu", torch.float32)
        width = embeddings.shape[1]
        masks = embeddings.mean(0) + 0.5 * embeddings.std(0) * torch.randn(length, width, generator=source)

        def random(rows: int, columns: int) -> torch.Tensor:
            return torch.randn(rows, columns, generator=source) / math.sqrt(columns)

        pairs = {
            name: (random(rank, layer.in_features), torch.zeros(layer.out_features, rank))
            for name, layer in linears_of(model, linears).items()
            if rank
        }
        weights = Conditioner.fresh(length, width, conditioner, source) if conditioner else None
        return cls(masks, pairs, weights, tokens).to(model.device, torch.float32)

    def to(self, device: torch.device, dtype: torch.dtype) -> Adapters:
        """The same weights on another device, in another dtype."""
        moved = {name: tensor.to(device, None if name == TOKENS else dtype) for name, tensor in self.tensors().items()}
        return Adapters.of(moved)

    def tensors(self) -> dict[str, torch.Tensor]:
        """All weights by name, in a fixed order."""
        named = {MASKS: self.masks}
        for name, (down, up) in self.pairs.items():
            named |= {name + DOWN: down, name + UP: up}
        if self.tokens is not None:
            named[TOKENS] = self.tokens
        conditioner = {} if self.conditioner is None else self.conditioner.tensors()
        return named | {CONDITIONER + name: tensor for name, tensor in conditioner.items()}

    def weights(self) -> dict[str, torch.Tensor]:
        """The trained ones among `tensors`."""
        return {name: tensor for name, tensor in self.tensors().items() if name != TOKENS}

    @classmethod
    def of(cls, tensors: Mapping[str, torch.Tensor]) -> Adapters:
        """The adapters whose `tensors` these are.

        Raises:
            KeyError: a tensor is missing.
        """
        names = [name.removesuffix(DOWN) for name in tensors if name.endswith(DOWN)]
        conditioner = None
        if any(name.startswith(CONDITIONER) for name in tensors):
            conditioner = Conditioner(*(tensors[CONDITIONER + name] for name in NAMES))
        pairs = {name: (tensors[name + DOWN], tensors[name + UP]) for name in names}
        return cls(tensors[MASKS], pairs, conditioner, tensors.get(TOKENS))

    def logits(self, model: Any, states: torch.Tensor) -> torch.Tensor:
        """Logits by the model's output matrix: states after the final norm, [n, D] -> [n, draftable tokens]."""
        if self._head is None and self.tokens is not None:
            self._head = _head_rows(model.get_output_embeddings(), self.tokens)
        head: torch.nn.Linear = self._head or model.get_output_embeddings()
        with packed_passes():
            return head(states)  # type: ignore[no-any-return]

    def delta(self, name: str, inputs: torch.Tensor) -> torch.Tensor:
        """The low-rank addition of a linear layer at adaptive rows: [..., in] -> [..., out]."""
        down, up = self.pairs[name]
        return F.linear(F.linear(inputs, down.to(inputs.dtype)), up.to(inputs.dtype))

    def condition_on_points(self, numbers: Sequence[int], rows: torch.Tensor, points: torch.Tensor) -> torch.Tensor:
        """Combine adaptive rows with the states of their chains' points.

        Args:
            numbers: the mask number of each row, n of them.
            rows: [n, D], after the final norm.
            points: [n, D], the state of each row's point.

        Returns:
            [n, D]; `rows` without a conditioner.
        """
        if self.conditioner is None:
            return rows
        states = torch.empty_like(rows)
        for mask in sorted(set(numbers)):
            own = torch.tensor([row for row, number in enumerate(numbers) if number == mask], device=rows.device)
            states[own] = self.conditioner.condition_on_points(mask, rows[own], points[own])
        return states

    def combined(self, mask: int, states: torch.Tensor, before: torch.Tensor) -> torch.Tensor:
        """Combine states of one mask with the tokens before its prediction.

        Args:
            mask: its number.
            states: [..., D], from `condition_on_points`.
            before: [..., D], embeddings of these tokens.

        Returns:
            [..., D]; `states` without a conditioner.
        """
        if self.conditioner is None:
            return states
        return self.conditioner.combined(mask, states, before.to(states.dtype))


def _head_rows(output: torch.nn.Linear, tokens: torch.Tensor) -> torch.nn.Linear:
    """A layer of some rows of an output matrix: of integers if this is, else packed if possible."""
    if isinstance(output, IntegerLinear):
        return output.rows(tokens)
    weight = rows_of(output, tokens).detach()
    rows = torch.nn.Linear(weight.shape[1], weight.shape[0], output.bias is not None, device="meta")
    rows.weight = torch.nn.Parameter(weight, requires_grad=False)
    if output.bias is not None:
        rows.bias = torch.nn.Parameter(output.bias.detach()[tokens], requires_grad=False)
    pack(rows)
    return rows


def linears_of(model: Any, linears: Sequence[str] = LINEARS) -> dict[str, torch.nn.Linear]:
    """A model's linear layers by name, such as "layers.0.self_attn.q_proj", in the order in which they run.

    Raises:
        ValueError: a name is not in LINEARS, or the model lacks such layers.
    """
    if unknown := sorted(set(linears) - set(LINEARS)):
        raise ValueError(f"adapters act on {', '.join(LINEARS)}; there is no {', '.join(unknown)}")
    modules = {
        name: module
        for name, module in model.get_decoder().named_modules()
        if isinstance(module, torch.nn.Linear) and name.rpartition(".")[2] in linears
    }
    if missing := sorted(set(linears) - {name.rpartition(".")[2] for name in modules}):
        raise ValueError(f"this model has no {', '.join(missing)}; leave them out of the adapted layers")
    return modules


class AdaptiveRows:
    """The adaptive rows of one pass, of all sequences together.

    Args:
        adapters: their weights.
        model: the stock model.
        rows: their row numbers in the pass, ascending.
        numbers: the mask number of each.
        points: the row number of each one's point.

    Attributes:
        states: [m, D], their states after the pass, from `Adapters.condition_on_points`.
    """

    def __init__(
        self, adapters: Adapters, model: Any, rows: Sequence[int], numbers: Sequence[int], points: Sequence[int]
    ) -> None:
        self._adapters = adapters
        self._model = model
        self._numbers = numbers
        self._points = torch.tensor(points, device=model.device)
        contiguous = rows[-1] - rows[0] == len(rows) - 1
        self._slice = slice(rows[0], rows[-1] + 1) if contiguous else None
        self._rows = None if contiguous else torch.tensor(rows, device=model.device)
        self.states = adapters.masks.new_empty(0)

    def embeddings(self, ids: torch.Tensor) -> torch.Tensor:
        """The model's input: token ids [1, T], any at adaptive rows -> [1, T, D]."""
        embeddings: torch.Tensor = self._model.get_input_embeddings()(ids)
        masks = self._adapters.masks[list(self._numbers)].to(embeddings.dtype)
        embeddings[0, self._slice if self._rows is None else self._rows] = masks
        return embeddings

    def hooks(self) -> list[tuple[torch.nn.Module, Hook]]:
        """The forward hooks of the pass: one that keeps the states, and the low-rank additions."""
        decoder = self._model.get_decoder()
        additions = [(decoder.get_submodule(name), self._adding(name)) for name in self._adapters.pairs]
        return [(decoder, self._keep), *additions]

    def _select(self, rows: torch.Tensor) -> torch.Tensor:
        """The adaptive ones of all rows: [1, T, d] -> [m, d]."""
        return rows[0, self._slice] if self._rows is None else rows[0].index_select(0, self._rows)

    def _keep(self, _module: Any, _inputs: Any, output: Any) -> None:
        states = output.last_hidden_state
        points = states[0].index_select(0, self._points)
        self.states = self._adapters.condition_on_points(self._numbers, self._select(states), points)

    def _adding(self, name: str) -> Hook:
        down, up = self._adapters.pairs[name]

        def hook(_module: Any, inputs: tuple[torch.Tensor], output: torch.Tensor) -> None:
            low_rank = F.linear(self._select(inputs[0]), down)
            if self._rows is None:
                output[0, self._slice].addmm_(low_rank, up.T)  # a view: other rows are not touched
            else:
                output[0].index_add_(0, self._rows, F.linear(low_rank, up))

        return hook
