"""Whether bitwise passes keep their promise here: the same text by itself, in a draft's branch, and in other company.

Runs a target model over some pages of random ids; knows no kernel.
"""

from __future__ import annotations

import logging
import random

import torch

from decoder.drafts.tree import ROOT, DraftTree, TokenSource
from decoder.errors import BitwiseUnavailable
from decoder.model import bitwise
from decoder.model.pass_parts import TreePass
from decoder.model.paths.paths import KEYS
from decoder.model.target import TargetModel

log = logging.getLogger(__name__)

PROMPT = 2 * KEYS - 5
ANSWER = 12
"""Tokens after the prompt; they cross a border of keys that are computed together."""
BRANCHES = 3
"""Other nodes before each node of the draft."""
_SOURCE = TokenSource("check")


def ensure(target: TargetModel, required: bool = True) -> None:
    """Run the check, and again with products of fixed rows if bits depend on their number.

    Args:
        required: whether the passes have to be bitwise; else the target becomes one whose passes are not.

    Raises:
        BitwiseUnavailable: they have to, and even then bits depend on other rows.
    """
    for fixed in (False, True) if required else (False,):
        bitwise.fix_rows(target.model, fixed)
        if holds(target):
            return
    if not required:
        log.warning("a row's bits depend on its pass's other rows here, so drafts are exact up to rounding only")
        target.bitwise = False
        return
    raise BitwiseUnavailable(
        "on this processor, with this version of torch, a row's bits depend on the other rows of its pass; "
        "use the dtype float32, or leave exact at its default"
    )


@torch.inference_mode()
def holds(target: TargetModel) -> bool:
    """Whether the logits of an answer's tokens are equal, one pass a token and in one draft with other branches."""
    source = random.Random(0)
    prompt, answer = min(PROMPT, target.max_positions // 2), min(ANSWER, target.max_positions // 4)
    ids = [source.randrange(target.vocab_size) for _ in range(prompt + answer)]
    alone = target.new_cache(len(ids) + 1)
    target.prefill(ids[:prompt], alone)
    expected = []
    for token in ids[prompt:]:
        expected.append(target.forward_tree([TreePass(alone, token, DraftTree())])[0].logits[0])
        alone.keep([])
    cut = prompt // 3
    pieces, other = target.new_cache(len(ids) + answer * (BRANCHES + 1)), target.new_cache(answer + 2)
    target.prefill(ids[:cut], pieces)
    target.prefill(ids[cut:prompt], pieces)
    target.prefill(ids[:answer], other)
    tree, parent, rows = DraftTree(), ROOT, [0]
    for token in ids[prompt + 1 :]:
        for branch in range(BRANCHES):
            tree.add((token + 1 + branch) % target.vocab_size, parent, _SOURCE)
        parent = tree.add(token, parent, _SOURCE)
        rows.append(1 + parent)
    drafted = target.forward_tree([TreePass(other, ids[0], DraftTree()), TreePass(pieces, ids[prompt], tree)])[1].logits
    return torch.equal(drafted[rows], torch.stack(expected))
