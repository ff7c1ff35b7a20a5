"""The accept rule: a draft token is accepted if it equals the token that `select` picks at its position.

One walk from the root compares every child with that token. It is the same for greedy and sampled answers, for chains
and trees, and for every drafter. Rows of greedy answers, and of all on a GPU, are read before the walks (`read_rows`).
"""

from __future__ import annotations

from collections.abc import Iterator
from collections.abc import Sequence as Ids
from itertools import islice

import torch

from decoder.drafts.accepted import Accepted
from decoder.drafts.tree import ROOT, DraftTree, TokenSource
from decoder.sampling import noise
from decoder.sampling.best_tokens import BestTokens, best_tokens
from decoder.sampling.contenders import has_grammar, temperatures
from decoder.sampling.greedy import greedy
from decoder.sampling.logprobs import TokenLogprob, token_logprob
from decoder.sampling.near_ties import decide, is_near_tie
from decoder.sampling.select import select
from decoder.sequence import Sequence

Readings = Ids[int] | Ids[BestTokens] | Ids[None]
"""What is known of each row of logits: its greedy choice, its best tokens, or nothing."""


def verify(
    tree: DraftTree,
    logits: torch.Tensor,
    sequence: Sequence,
    near_tie: float | None = None,
    readings: Readings | None = None,
) -> Accepted:
    """Walk the tree along the tokens that `select` picks.

    Args:
        tree: n draft nodes.
        logits: [n + 1, V]; row 0 is for the token after the root, row i + 1 for the token after node i.
        sequence: its history advances past every chosen token.
        near_tie: margin in logits below which the walk ends without a choice; None decides every position.
        readings: of all rows, by `read_rows`; None reads the rows that the walk visits.

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
            known = None if readings is None else readings[node + 1]
            token = known if isinstance(known, int) else select(*arguments, best=known)
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


def draw_ahead(sequences: Ids[Sequence], vocab: int) -> None:
    """Draw the noise of each answer's next token, which takes longer than the rest of a choice, while a GPU is busy."""
    for sequence in sequences[: noise.STREAMS]:
        if sequence.params.draws_from_all:
            noise.stream(sequence.params.seed, sequence.params.choice, sequence.position, vocab)


def read_ahead(logits: Ids[torch.Tensor], sequences: Ids[Sequence]) -> list[Readings | None]:
    """`read_rows` for answers whose rows are read sooner all at once: all of them on a GPU, plain greedy ones on a
    CPU that are not strict. None for others.
    """
    readings: list[Readings | None] = [None] * len(logits)
    numbers = [
        number
        for number, (rows, sequence) in enumerate(zip(logits, sequences, strict=True))
        if rows.device.type != "cpu" or (sequence.params.plain_greedy and sequence.params.exact != "strict")
    ]
    found = read_rows([logits[number] for number in numbers], [sequences[number] for number in numbers])
    for number, reading in zip(numbers, found, strict=True):
        readings[number] = reading
    return readings


def read_rows(logits: Ids[torch.Tensor], sequences: Ids[Sequence]) -> list[Readings | None]:
    """Read what the walks need of all answers' logits, where these are: one transfer for the plain greedy answers and
    one for the others.

    Args:
        logits: [rows, V] of each sequence, on one device.
        sequences: as many.

    Returns:
        one a row of each sequence; None for answers that need whole rows: strict ones, and those with a grammar.
    """
    readings: list[Readings | None] = [None] * len(logits)
    plain = [n for n, s in enumerate(sequences) if s.params.plain_greedy]
    whole = [n for n, s in enumerate(sequences) if s.params.exact == "strict" or has_grammar(s.history)]
    others = sorted(set(range(len(sequences))) - {*plain, *whole})
    if plain:
        tokens: Iterator[int] = iter(_greedy([logits[n] for n in plain]))
        for n in plain:
            readings[n] = list(islice(tokens, len(logits[n])))
    if others:
        weighed = temperatures([sequences[n].params for n in others for _ in range(len(logits[n]))])
        rows: Iterator[BestTokens] = iter(best_tokens(_joined([logits[n] for n in others]), weighed))
        for n in others:
            readings[n] = list(islice(rows, len(logits[n])))
    return readings


def _greedy(logits: Ids[torch.Tensor]) -> list[int]:
    """The greedy choices of all rows; on a CPU, joining these takes longer than reading them apart."""
    if logits[0].device.type == "cpu":
        return [token for rows in logits for token in greedy(rows).tolist()]
    chosen: list[int] = greedy(_joined(logits)).tolist()
    return chosen


def _joined(logits: Ids[torch.Tensor]) -> torch.Tensor:
    return logits[0] if len(logits) == 1 else torch.cat(list(logits))
