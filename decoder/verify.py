"""The accept rule: a draft token is accepted when it equals what `select` picks at its position.

One walk from the root, one `select` a position; it serves greedy and sampling, chains and trees, any drafter.
"""

from __future__ import annotations

import torch

from decoder.drafts.accepted import Accepted
from decoder.drafts.tree import ROOT, DraftTree, TokenSource
from decoder.sampling.logprobs import TokenLogprob, token_logprob
from decoder.sampling.near_ties import decide, is_near_tie
from decoder.sampling.select import select
from decoder.sequence import Sequence


def verify(tree: DraftTree, logits: torch.Tensor, sequence: Sequence, near_tie: float | None = None) -> Accepted:
    """Walk the tree along what `select` picks.

    Args:
        tree: n draft nodes.
        logits: [n + 1, V], row 0 follows the root, row i + 1 follows node i.
        sequence: its history is advanced past every token chosen here.
        near_tie: margin in logits below which the walk ends undecided; None decides every position.

    Returns:
        at least one token; the last is the target's own choice, where the walk leaves the tree. No token if the first
        choice is a near-tie.
    """
    tokens: list[int] = []
    path: list[int] = []
    sources: list[TokenSource | None] = []
    logprobs: list[TokenLogprob] = []
    node: int | None = ROOT
    chosen = _all_at_once(logits) if sequence.params.plain_greedy and logits.device.type != "cpu" else None
    while node is not None:
        place = logits[node + 1], sequence.params, sequence.position + len(tokens), sequence.history
        if near_tie is None:
            token = select(*place) if chosen is None else chosen[node + 1]
        else:
            token, margin = decide(*place)
            if is_near_tie(margin, sequence.params, near_tie):
                return Accepted(tokens, path, sources, token, logprobs)
        if sequence.params.logprobs is not None:
            logprobs.append(token_logprob(logits[node + 1], token, sequence.params.logprobs))
        sequence.history.push(token)
        tokens.append(token)
        node = tree.child(node, token)
        sources.append(None if node is None else tree.sources[node])
        if node is not None:
            path.append(node)
    return Accepted(tokens, path, sources, logprobs=logprobs)


def _all_at_once(logits: torch.Tensor) -> list[int]:
    """What `select` picks greedily behind each row: a device is waited for once, not once a token."""
    rows: list[int] = logits.argmax(-1).tolist()
    return rows
