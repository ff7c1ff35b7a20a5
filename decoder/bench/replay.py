"""Replay: a copy drafter scored on recorded tokens, step by step as the engine would go, without a model.

Knows sequences, drafters and recordings. A drafter that reads logits or hidden states cannot be replayed.
"""

from __future__ import annotations

from decoder.bench.oracle import OracleDrafter
from decoder.bench.record import Recording
from decoder.bench.specs import make_from_spec
from decoder.drafters import Drafter
from decoder.engine import MAX_NODES
from decoder.params import SamplingParams
from decoder.sequence import Sequence
from decoder.stats import DecodeStats
from decoder.tree import ROOT, DraftTree, TokenSource

ORACLE = "oracle"


def make_drafter(spec: str, recording: Recording) -> Drafter:
    """A fresh drafter; `oracle` knows the recorded answer."""
    return OracleDrafter(recording.output_ids) if spec == ORACLE else make_from_spec(spec)


def replay(recording: Recording, drafter: Drafter, max_nodes: int = MAX_NODES) -> tuple[DecodeStats, int]:
    """Decode the recorded answer again, its tokens standing in for what the target selects.

    Returns:
        (counts of the answer, tokens accepted from copies). `ms` stays zero.
    """
    sequence = Sequence(
        recording.prompt_ids,
        SamplingParams(max_tokens=max(recording.max_tokens, len(recording.output_ids))),
        (),
        drafter,
        None,
        frozenset(),
        max_nodes=max_nodes,
    )
    output = recording.output_ids
    copied = 0
    sequence.extend(output[:1])  # prefill chooses the first token
    while len(sequence.tokens) < len(output):
        tree = DraftTree() if sequence.remaining <= 1 else drafter.draft(sequence, max_nodes).pruned(max_nodes)
        tokens, sources = walk(tree, output[len(sequence.tokens) :])
        sequence.extend(tokens)
        accepted = [source for source in sources if source is not None]
        sequence.stats.record(tree, accepted)
        copied += sum(source.offset is not None for source in accepted)
    return sequence.stats, copied


def walk(tree: DraftTree, ahead: list[int]) -> tuple[list[int], list[TokenSource | None]]:
    """Follow the coming tokens down the tree.

    Args:
        tree: the step's draft.
        ahead: the tokens to come, at least one.

    Returns:
        (the accepted tokens and the bonus token, their sources: None for the bonus). There is no bonus token where
        the answer ends inside the draft.
    """
    tokens: list[int] = []
    sources: list[TokenSource | None] = []
    node = ROOT
    for token in ahead:
        tokens.append(token)
        child = tree.child(node, token)
        if child is None:
            sources.append(None)
            break
        sources.append(tree.sources[child])
        node = child
    return tokens, sources
