"""The accept rule: a draft token is accepted if it equals the token that `select` picks at its position.

One walk from the root compares every child with that token: `select`'s own or, for plain greedy answers on a GPU and
for strict ones, the same token by a shorter way (`device_choices`, `decide`). It is the same for greedy and sampled
answers, for chains and trees, and for every drafter.
"""

from __future__ import annotations

from collections.abc import Iterator
from collections.abc import Sequence as Ids
from itertools import islice

import torch

from decoder.drafts.accepted import Accepted
from decoder.drafts.tree import ROOT, DraftTree, TokenSource
from decoder.sampling.logprobs import TokenLogprob, token_logprob
from decoder.sampling.near_ties import decide, is_near_tie
from decoder.sampling.select import select
from decoder.sequence import Sequence


def verify(
    tree: DraftTree,
    logits: torch.Tensor,
    sequence: Sequence,
    near_tie: float | None = None,
    greedy: list[int] | None = None,
) -> Accepted:
    """Walk the tree along the tokens that `select` picks.

    Args:
        tree: n draft nodes.
        logits: [n + 1, V]; row 0 is for the token after the root, row i + 1 for the token after node i.
        sequence: its history advances past every chosen token.
        near_tie: margin in logits below which the walk ends without a choice; None decides every position.
        greedy: the choices of all rows, if `device_choices` made them.

    Returns:
        the accepted tokens and the bonus token, which the target chooses where the walk leaves the tree. Without the
        bonus token, and possibly empty, if the walk ends at a near-tie.
    """
    tokens: list[int] = []
    path: list[int] = []
    sources: list[TokenSource | None] = []
    logprobs: list[TokenLogprob] = []
    node: int | None = ROOT
    while node is not None:
        arguments = logits[node + 1], sequence.params, sequence.position + len(tokens), sequence.history
        if near_tie is None:
            token = select(*arguments) if greedy is None else greedy[node + 1]
        else:
            token, margin = decide(*arguments)
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


def device_choices(logits: Ids[torch.Tensor], sequences: Ids[Sequence]) -> list[list[int] | None]:
    """The choices of plain greedy answers on a GPU, of all answers by one transfer.

    Args:
        logits: [rows, V] of each sequence.
        sequences: as many.

    Returns:
        one token a row of each sequence; None where `select` has to pick.
    """
    choices: list[list[int] | None] = [None] * len(logits)
    numbers = [n for n, s in enumerate(sequences) if s.params.plain_greedy and logits[n].device.type != "cpu"]
    if numbers:
        for number, tokens in zip(numbers, greedy_choices([logits[n] for n in numbers]), strict=True):
            choices[number] = tokens
    return choices


def greedy_choices(logits: Ids[torch.Tensor]) -> list[list[int]]:
    """The tokens that `select` picks greedily from each row of logits, [rows, V] of each sequence."""
    whole = logits[0] if len(logits) == 1 else torch.cat(list(logits))
    tokens: Iterator[int] = iter(whole.argmax(-1).tolist())
    return [list(islice(tokens, len(rows))) for rows in logits]
