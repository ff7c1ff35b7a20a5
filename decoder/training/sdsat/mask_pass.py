"""Chains of masks after many points of known answers, in one differentiable pass.

The answers' own rows run first, frozen, as in a prefill: their keys and values are in the caches. The masks then run as
a batch of rows that read them. Each chain sees the rows up to its point and its own earlier masks, as in a decoding
pass (`mask_chains`), for hundreds of points at once. Only masks and adapters get gradients.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from decoder.model.adapters import Adapters
from decoder.model.attention import PassCache, Span
from decoder.model.forward_outputs import RequiredOutputs
from decoder.model.kv_cache import KVCache
from decoder.model.linear.quantise import rows_of
from decoder.model.pass_parts import PromptChunk
from decoder.model.target import TargetModel
from decoder.training.answers import Answer
from decoder.training.frozen_head_loss import frozen_head_loss

IGNORED = -1
"""Label of masks after an answer's end."""
DISCOUNT = 0.8
"""Weight of a mask in the loss relative to the mask before it, which must be right for it to matter."""


@dataclass(frozen=True, slots=True)
class Points:
    """Accept points of one answer.

    Attributes:
        answer: the tokens.
        at: absolute positions, ascending; a chain after position `at` predicts the tokens from at + 2 on.
    """

    answer: Answer
    at: NDArray[np.int64]

    @classmethod
    def of(cls, answer: Answer, most: int, source: np.random.Generator | None = None) -> Points:
        """At most `most` of an answer's points, drawn at random or, without a source, spread evenly.

        A point is a token of the answer that at least two tokens follow: one for the pass to choose, one for the mask.
        """
        points = np.arange(answer.prompt, len(answer) - 2)
        if len(points) > most and source is not None:
            points = np.sort(source.choice(points, most, replace=False))
        elif len(points) > most:
            points = points[np.linspace(0, len(points) - 1, most).round().astype(int)]
        return cls(answer, points)

    def labels(self, length: int) -> NDArray[np.int64]:
        """The token that each mask should predict, [points, length]; IGNORED after the end."""
        return self._tokens(length, 2)

    def before(self, length: int) -> NDArray[np.int64]:
        """The token before it, [points, length]; 0 after the end."""
        return np.maximum(self._tokens(length, 1), 0)

    def _tokens(self, length: int, ahead: int) -> NDArray[np.int64]:
        places = self.at[:, None] + ahead + np.arange(length)
        known = self.answer.tokens[np.minimum(places, len(self.answer) - 1)].astype(np.int64)
        return np.where(places < len(self.answer), known, IGNORED)


@dataclass(frozen=True, slots=True)
class Predictions:
    """The predictions of a batch's masks.

    Attributes:
        loss: scalar, mean over the rows that have a label, with its graph.
        right: bool [points, k], the mask's best token, given the true token before it, is right.
        known: bool [points, k], there is a right token.
    """

    loss: torch.Tensor
    right: NDArray[np.bool_]
    known: NDArray[np.bool_]


class _ReadCache(PassCache):
    """Shows layers the cached keys and values followed by the pass's own, without writing: gradients flow."""

    def update(
        self, keys: torch.Tensor, values: torch.Tensor, layer_idx: int, *_: Any, **__: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        self.layer = []
        for span in self.spans:
            cached = span.cache.rows()[layer_idx]  # [2, kv_heads, length, head_dim]
            own = slice(span.start, span.stop)
            self.layer.append(
                (torch.cat([cached[0:1], keys[:, :, own]], dim=2), torch.cat([cached[1:2], values[:, :, own]], dim=2))
            )
        return keys, values


class Frozen(NamedTuple):
    """A whole answer's rows, prompt included, from the unchanged target.

    Attributes:
        cache: their keys and values.
        states: [n, D], outputs of the final norm.
    """

    cache: KVCache
    states: torch.Tensor


def frozen_rows(target: TargetModel, answers: Sequence[Answer]) -> list[Frozen]:
    """Run answers through the target."""
    caches = [target.new_cache(len(answer)) for answer in answers]
    batch = zip(caches, answers, strict=True)
    passes = target.forward_tree(
        [PromptChunk(cache, answer.tokens.tolist(), RequiredOutputs(features=True)) for cache, answer in batch]
    )
    for cache in caches:
        cache.keep_all()
    return [Frozen(cache, one.features) for cache, one in zip(caches, passes, strict=True) if one.features is not None]


def mask_states(
    target: TargetModel, adapters: Adapters, frozen: Sequence[Frozen], points: Sequence[NDArray[np.int64]]
) -> torch.Tensor:
    """States of the masks after the points of each answer (`Adapters.told`), [all points, k, D]."""
    length = adapters.length
    spans: list[Span] = []
    positions: list[NDArray[np.int64]] = []
    start = 0
    for (cache, _), at in zip(frozen, points, strict=True):
        rows = len(at) * length
        spans.append(Span(cache, start, start + rows, _mask(cache.length, at, length, target.device)))
        positions.append((at[:, None] + 1 + np.arange(length)).reshape(-1))
        start += rows
    numbers = list(range(length)) * (start // length)
    reading = _ReadCache(spans)
    with _adapting(target.model.get_decoder(), adapters):
        output = target.model.get_decoder()(
            inputs_embeds=adapters.masks[numbers].to(target.dtype)[None],
            position_ids=torch.from_numpy(np.concatenate(positions))[None].to(target.device),
            past_key_values=reading,
            pass_cache=reading,
            use_cache=True,
        )
    states: torch.Tensor = output.last_hidden_state[0]
    at_points = torch.cat([states[at] for (_, states), at in zip(frozen, points, strict=True)])
    conditioned = adapters.condition_on_points(numbers, states, at_points.repeat_interleave(length, 0))
    return conditioned.view(-1, length, states.shape[-1])


class Vocabulary:
    """The tokens that adapters can draft, as rows of the target's output matrix.

    Attributes:
        matrix: [n, D].
        numbers: int64 [V], each token's row; -1 for tokens without a row.
    """

    def __init__(self, target: TargetModel, tokens: torch.Tensor) -> None:
        self.matrix: torch.Tensor = rows_of(target.model.get_output_embeddings(), tokens).detach()
        self.numbers = np.full(target.vocab_size, IGNORED, np.int64)
        self.numbers[tokens.cpu().numpy()] = np.arange(len(tokens))


def predict(
    target: TargetModel, adapters: Adapters, batch: Sequence[Points], vocabulary: Vocabulary | None = None
) -> Predictions:
    """Run a batch; the loss has a graph if gradients are enabled.

    Args:
        vocabulary: of `adapters.tokens`. Tokens that it lacks are left out of the loss and count as wrong.
    """
    frozen = frozen_rows(target, [points.answer for points in batch])
    states = mask_states(target, adapters, frozen, [points.at for points in batch])
    length = adapters.length
    labels = np.concatenate([points.labels(length) for points in batch])
    before = np.concatenate([points.before(length) for points in batch])
    labelled = labels != IGNORED
    numbers = np.maximum(labels, 0) if vocabulary is None else vocabulary.numbers[np.maximum(labels, 0)]
    known = labelled & (numbers >= 0)
    ids = torch.from_numpy(np.maximum(numbers, 0).reshape(-1, 1)).to(target.device)
    weights = (known * DISCOUNT ** np.arange(length)).astype(np.float32)
    chances = torch.from_numpy(weights.reshape(-1, 1)).to(target.device)
    matrix = target.model.get_output_embeddings().weight if vocabulary is None else vocabulary.matrix
    embeddings = target.model.get_input_embeddings()(torch.from_numpy(before).to(target.device))
    conditioned = [adapters.combined(mask, states[:, mask], embeddings[:, mask]) for mask in range(length)]
    total, best = frozen_head_loss(torch.stack(conditioned, 1).flatten(0, 1), matrix, ids, chances)
    right = (best == ids[:, 0]).view(-1, length).cpu().numpy() & known
    return Predictions(total / max(float(weights.sum()), 1.0), right, labelled)


def _mask(cached: int, at: NDArray[np.int64], length: int, device: torch.device) -> torch.Tensor:
    """bool [points * k, cached + points * k]."""
    rows = len(at) * length
    reach = torch.from_numpy(np.repeat(at, length)).to(device)
    chain = torch.arange(rows, device=device) // length
    place = torch.arange(rows, device=device)
    prefix = torch.arange(cached, device=device)[None] <= reach[:, None]
    own = (chain[:, None] == chain[None]) & (place[:, None] >= place[None])
    return torch.cat([prefix, own], dim=1)


@contextmanager
def _adapting(decoder: Any, adapters: Adapters) -> Iterator[None]:
    """Apply the adapters to every row of a pass inside the block, with gradients."""

    def adding(name: str) -> Any:
        return lambda _module, inputs, output: output + adapters.delta(name, inputs[0])

    hooks = [decoder.get_submodule(name).register_forward_hook(adding(name)) for name in adapters.pairs]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()
