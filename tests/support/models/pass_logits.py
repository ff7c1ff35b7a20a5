"""The logits that passes gave along a known answer, to compare them bit by bit."""

from __future__ import annotations

from collections.abc import Sequence as Ids
from typing import Any

import pytest
import torch

from decoder import Engine, SamplingParams
from decoder.drafters.base import Drafter
from decoder.drafts.tree import ROOT
from decoder.model.pass_parts import TreePass
from decoder.model.target import TargetModel
from tests.support.tiny_models import decoded


def logits_along(
    engine: Engine,
    prompt: Ids[int],
    params: SamplingParams,
    drafter: str | Drafter,
    text: Ids[int],
    monkeypatch: pytest.MonkeyPatch,
) -> list[tuple[int, torch.Tensor]]:
    """(position in `text`, logits [V] after it) of every row of a tree whose path is a part of `text`.

    `text`: the prompt and its answer. An answer has one such row for each of its tokens at least.
    """
    found: list[tuple[int, torch.Tensor]] = []
    forward = TargetModel.forward_tree

    def noting(target: TargetModel, batch: Ids[Any]) -> Any:
        starts = [part.cache.length for part in batch]
        outputs = forward(target, batch)
        for part, start, output in zip(batch, starts, outputs, strict=True):
            if target is engine.target and isinstance(part, TreePass):
                found.extend(_rows(part, start, output.logits, text))
        return outputs

    with monkeypatch.context() as patch:
        patch.setattr(TargetModel, "forward_tree", noting)
        decoded(engine, prompt, params, drafter)
    return found


def _rows(part: TreePass, start: int, logits: torch.Tensor, text: Ids[int]) -> list[tuple[int, torch.Tensor]]:
    right = {ROOT} if start < len(text) and text[start] == part.root else set()
    found = [(start, logits[0].clone())] if right else []
    for node, (token, parent, depth) in enumerate(
        zip(part.tree.tokens, part.tree.parents, part.tree.depths, strict=True)
    ):
        place = start + depth
        if parent in right and place < len(text) and text[place] == token:
            right.add(node)
            found.append((place, logits[1 + node].clone()))
    return found
