"""Pretraining of SDSAT's conditioner: it learns to draft from the points' states alone, before any mask runs.

Its linear maps are solved for as the best guess of the target's feature at each mask's place, as for an initial EAGLE
head (`eagle/initial_head.py`). Then they are trained together with its hidden layer against the target's best
probabilities, on cached features: thousands of positions per second, against dozens with masks. Masks then only need to
learn what the state of their point lacks.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence

import numpy as np
import torch
import torch.nn.functional as F

from decoder.model.adapters import Adapters
from decoder.model.conditioner import Conditioner
from decoder.model.target import TargetModel
from decoder.training.answers import Answer
from decoder.training.eagle.features import Example, FeatureStore
from decoder.training.eagle.order import batches, visits
from decoder.training.frozen_head_loss import frozen_head_loss, sample_tokens
from decoder.training.ridge import RidgeRegression
from decoder.training.sdsat.mask_pass import DISCOUNT, Vocabulary

_BATCH = 512
"""Points per step."""
_SAMPLED = 2048
"""Unlikely tokens that a step's loss samples."""
_WARM_UP = 50
_FALLING, _LOWEST = 0.4, 0.02


@torch.no_grad()
def fit(conditioner: Conditioner, examples: Iterable[Example], embeddings: torch.Tensor) -> None:
    """Set `point` and `token` to the best linear guess of the feature at each mask's place, by ridge regression over
    the answers.

    Args:
        embeddings: [V, D], the target's.
    """
    masks, width = len(conditioner.point), conditioner.point.shape[-1]
    regressions = [RidgeRegression(2 * width, width, conditioner.point.device) for _ in range(masks)]
    for example in examples:
        for mask, regression in enumerate(regressions):
            points, before, places = _rows(example, mask, embeddings)
            regression.add(torch.cat([points, before], dim=-1), example.features[places])
    for mask, regression in enumerate(regressions):
        weights = regression.solve()
        conditioner.point[mask] = weights[:, :width]
        conditioner.token[mask] = weights[:, width:]


def pretrain(
    target: TargetModel,
    adapters: Adapters,
    vocabulary: Vocabulary,
    store: FeatureStore,
    shards: Sequence[Sequence[Answer]],
    positions: int,
    lr: float,
    seed: int,
    say: Callable[[str], None],
) -> None:
    """Fit the conditioner, then train it on `positions` points of the shards' answers.

    Args:
        adapters: with a conditioner; its `row`, the masks and the low-rank additions do not change.
        positions: chain starts; each has as many tokens to predict as there are masks.
    """
    conditioner = adapters.conditioner
    assert conditioner is not None, "adapters without a conditioner have nothing to pretrain"
    embeddings = target.model.get_input_embeddings().weight.detach().to(conditioner.point)
    fit(conditioner, (example for shard in shards for example in store.examples(shard)), embeddings)
    weights = [tensor for name, tensor in conditioner.tensors().items() if name != "row"]
    optimizer = torch.optim.AdamW(weights, lr=lr, betas=(0.9, 0.95), weight_decay=0.01)
    generator = torch.Generator().manual_seed(seed)
    steps = (
        examples
        for number, shard in enumerate(visits(len(shards), seed))
        for examples in batches(store.examples(shards[shard]), _BATCH, 1_000_003 * seed + number)
    )
    done, reported, losses = 0, time.perf_counter(), []
    for step, examples in enumerate(steps):
        if done >= positions:
            break
        decay = min(1.0, max((1.0 - done / positions) / _FALLING, _LOWEST))
        for group in optimizer.param_groups:
            group["lr"] = lr * min(1.0, (step + 1) / _WARM_UP) * decay
        optimizer.zero_grad(set_to_none=True)
        sampled = len(vocabulary.matrix) > 2 * _SAMPLED
        drawn = sample_tokens(vocabulary.matrix, _SAMPLED, generator) if sampled else None
        loss = _loss(conditioner, examples, embeddings, vocabulary, drawn)
        loss.backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(weights, 1.0)
        optimizer.step()
        done += sum(max(example.positions - 1, 0) for example in examples)
        losses.append(float(loss.detach()))
        if (now := time.perf_counter()) - reported > 10.0:
            say(f"start: {done:,} of {positions:,} points, loss {np.mean(losses):.3f}")
            reported, losses = now, []


def _loss(
    conditioner: Conditioner,
    examples: Sequence[Example],
    embeddings: torch.Tensor,
    vocabulary: Vocabulary,
    drawn: torch.Tensor | None,
) -> torch.Tensor:
    """Mean cross-entropy of the masks' tokens against the target's best probabilities."""
    states, ids, weights = [], [], []
    numbers = torch.from_numpy(vocabulary.numbers)
    for mask in range(len(conditioner.point)):
        parts = [_rows(example, mask, embeddings) for example in examples]
        points, before = (torch.cat(tensors) for tensors in list(zip(*parts, strict=True))[:2])
        states.append(conditioner.combined(mask, F.linear(points, conditioner.point[mask]), before, normed=True))
        for example, (_, _, places) in zip(examples, parts, strict=True):
            best = numbers[example.best_ids[places.start - example.prompt :].long()]
            chances = example.chances[places.start - example.prompt :].float() * (best >= 0)
            ids.append(best.clamp(min=0))
            weights.append(chances * DISCOUNT**mask)
    device = vocabulary.matrix.device
    weight = torch.cat(weights).to(device)
    total, _ = frozen_head_loss(torch.cat(states), vocabulary.matrix, torch.cat(ids).to(device), weight, drawn)
    return total / weight.sum().clamp(min=1e-9)


def _rows(example: Example, mask: int, embeddings: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, slice]:
    """Of all points of an answer for which a mask has a token to predict: their features and the normed embeddings of
    the tokens before that token, [n, D] each, and the positions whose features predict it."""
    first, last = example.prompt, len(example.tokens) - 2 - mask
    places = slice(first + 1 + mask, max(last, first) + 1 + mask)
    before = embeddings[example.tokens[places].to(embeddings.device)]
    points = example.features[first : max(last, first)].to(before)
    return points, F.rms_norm(before, before.shape[-1:]), places
