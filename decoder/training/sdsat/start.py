"""What SDSAT adapters start from: a coupler that drafts from the points' states alone, before any mask has run.

Its linear maps are solved for, as the best guess of the target's feature at the place that a mask tells (an EAGLE
head's start, `eagle_start.py`), and then trained with its hidden layer against the target's best probabilities, on
features that are computed once: some thousand positions a second where masks make some dozens. What is left for the
masks is what the state of their point does not tell.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence

import numpy as np
import torch
import torch.nn.functional as F

from decoder.model.adapters import Adapters
from decoder.model.conditioner import Coupler
from decoder.model.target import TargetModel
from decoder.training.answers import Answer
from decoder.training.eagle.features import Example, FeatureStore
from decoder.training.eagle.order import batches, visits
from decoder.training.frozen_head_loss import frozen_head_loss
from decoder.training.sdsat.mask_pass import NEARER, Vocabulary

_RIDGE = 0.01
"""Penalty of the weights' size, in mean squares of the inputs."""
_BATCH = 512
"""Points a step."""
_SAMPLED = 2048
"""Tokens beside the likely ones that a step's loss counts."""
_WARM_UP = 50
_FALLING, _LOWEST = 0.4, 0.02


@torch.no_grad()
def fit(coupler: Coupler, examples: Iterable[Example], embeddings: torch.Tensor) -> None:
    """Let `point` and `token` guess the feature of the place that each mask tells, by least squares over the answers.

    Args:
        embeddings: [V, D], the target's.
    """
    masks, width = len(coupler.point), coupler.point.shape[-1]
    squares = coupler.point.new_zeros(masks, 2 * width, 2 * width, dtype=torch.float64)
    products = coupler.point.new_zeros(masks, 2 * width, width, dtype=torch.float64)
    for example in examples:
        for mask in range(masks):
            points, before, told = _rows(example, mask, embeddings)
            given = torch.cat([points, before], dim=-1)
            squares[mask] += given.T @ given
            products[mask] += given.T @ example.features[told].to(given)
    for mask in range(masks):
        squares[mask].diagonal().add_(_RIDGE * squares[mask].diagonal().mean() + 1e-12)
        solved = torch.linalg.solve(squares[mask], products[mask]).T
        coupler.point[mask] = solved[:, :width]
        coupler.token[mask] = solved[:, width:]


def train(
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
    """Fit the coupler, and train it on `positions` points of the shards' answers.

    Args:
        adapters: with a coupler; its `row` stays as it is, as do masks and low-rank additions.
        positions: chain starts, each of which tells as many tokens as there are masks.
    """
    coupler = adapters.coupler
    assert coupler is not None, "there is nothing to start without one"
    embeddings = target.model.get_input_embeddings().weight.detach().to(coupler.point)
    fit(coupler, (example for shard in shards for example in store.examples(shard)), embeddings)
    learned = [tensor for name, tensor in coupler.tensors().items() if name != "row"]
    optimizer = torch.optim.AdamW(learned, lr=lr, betas=(0.9, 0.95), weight_decay=0.01)
    drawing = torch.Generator().manual_seed(seed)
    seen, said, losses = 0, time.perf_counter(), []
    for step, examples in enumerate(_steps(store, shards, seed)):
        if seen >= positions:
            break
        done = seen / positions
        rate = lr * min(1.0, (step + 1) / _WARM_UP) * min(1.0, max((1.0 - done) / _FALLING, _LOWEST))
        for group in optimizer.param_groups:
            group["lr"] = rate
        optimizer.zero_grad(set_to_none=True)
        loss = _loss(coupler, examples, embeddings, vocabulary, _drawn(vocabulary, drawing))
        loss.backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(learned, 1.0)
        optimizer.step()
        seen += sum(max(example.positions - 1, 0) for example in examples)
        losses.append(float(loss.detach()))
        if (now := time.perf_counter()) - said > 10.0:
            say(f"start: {seen:,} of {positions:,} points, loss {np.mean(losses):.3f}")
            said, losses = now, []


def _steps(store: FeatureStore, shards: Sequence[Sequence[Answer]], seed: int) -> Iterator[list[Example]]:
    for number, shard in enumerate(visits(len(shards), seed)):
        yield from batches(store.examples(shards[shard]), _BATCH, 1_000_003 * seed + number)


def _loss(
    coupler: Coupler,
    examples: Sequence[Example],
    embeddings: torch.Tensor,
    vocabulary: Vocabulary,
    drawn: torch.Tensor | None,
) -> torch.Tensor:
    """Cross-entropy against the target's best probabilities, a mean over what the masks tell."""
    states, ids, chances = [], [], []
    numbers = torch.from_numpy(vocabulary.numbers)
    for mask in range(len(coupler.point)):
        parts = [_rows(example, mask, embeddings) for example in examples]
        points, before = (torch.cat(tensors) for tensors in list(zip(*parts, strict=True))[:2])
        states.append(coupler.combined(mask, F.linear(points, coupler.point[mask]), before, normed=True))
        for example, (_, _, told) in zip(examples, parts, strict=True):
            best = numbers[example.best_ids[told.start - example.prompt :].long()]
            known = example.chances[told.start - example.prompt :].float() * (best >= 0)
            ids.append(best.clamp(min=0))
            chances.append(known * NEARER**mask)
    device = vocabulary.matrix.device
    weights = torch.cat(chances).to(device)
    total, _ = frozen_head_loss(torch.cat(states), vocabulary.matrix, torch.cat(ids).to(device), weights, drawn)
    return total / weights.sum().clamp(min=1e-9)


def _drawn(vocabulary: Vocabulary, drawing: torch.Generator) -> torch.Tensor | None:
    """Tokens that stand for the unlikely ones; None where all can be counted as well."""
    size = len(vocabulary.matrix)
    return (
        None
        if size <= 2 * _SAMPLED
        else torch.randint(size, (_SAMPLED,), generator=drawing).to(vocabulary.matrix.device)
    )


def _rows(example: Example, mask: int, embeddings: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, slice]:
    """Of all points of an answer behind which there is something to tell: their features and the normed embeddings of
    the tokens before what the mask tells, [n, D] each, and the positions whose features tell it."""
    first, last = example.prompt, len(example.tokens) - 2 - mask
    told = slice(first + 1 + mask, max(last, first) + 1 + mask)
    before = embeddings[example.tokens[told].to(embeddings.device)]
    points = example.features[first : max(last, first)].to(before)
    return points, F.rms_norm(before, before.shape[-1:]), told
