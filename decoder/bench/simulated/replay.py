"""Replay: scores a drafter on recorded tokens, step by step as the engine would, without a model.

Knows sequences, drafters and recordings. Drafters see the recorded outputs of the passes that chose the tokens; a
drafter that reads outputs which no recording has cannot be replayed.
"""

from __future__ import annotations

from collections.abc import Iterator

from decoder.bench.simulated.oracle import OracleDrafter
from decoder.drafters import Drafter
from decoder.drafters.context import DrafterContext
from decoder.drafts.accepted import Accepted
from decoder.drafts.stats import DecodeStats
from decoder.drafts.tree import ROOT, DraftTree, TokenSource
from decoder.generation import Generation
from decoder.model.forward_outputs import ForwardOutputs
from decoder.planning.budget import choose
from decoder.recording.pass_archive import PassArchive, RecordedOutputs, archive_contents, check_required
from decoder.recording.record import Recording
from decoder.recording.specs import make_from_spec
from decoder.request import MAX_NODES
from decoder.sampling.params import SamplingParams
from decoder.sequence import PromptSegment

ORACLE = "oracle"


def make_drafter(spec: str, recording: Recording) -> Drafter:
    """A new drafter; `oracle` knows the recorded answer."""
    return OracleDrafter(recording.output_ids) if spec == ORACLE else make_from_spec(spec)


def replay(
    recording: Recording, drafter: Drafter, max_nodes: int = MAX_NODES, context: DrafterContext | None = None
) -> tuple[DecodeStats, int]:
    """Decode the recorded answer again, with its tokens in place of the target's choices.

    Returns:
        (counts of the answer, tokens accepted from copies). `ms` stays zero. Else as `replayed_steps`.
    """
    steps = list(replayed_steps(recording, drafter, max_nodes, context))
    copied = sum(
        source is not None and source.offset is not None for _, accepted in steps for source in accepted.sources
    )
    return steps[-1][0], copied


def replayed_steps(
    recording: Recording, drafter: Drafter, max_nodes: int = MAX_NODES, context: DrafterContext | None = None
) -> Iterator[tuple[DecodeStats, Accepted]]:
    """The steps of `replay`, one at a time; the first is the prefill, whose token no draft had.

    The last token of an answer with finish reason "stop" counts as an end token.

    Args:
        context: its cost curve cuts trees with values; its acceptance tables learn, with the recording's benchmark as
            their domain. Default: a new context.

    Yields:
        (counts of the answer so far, what the step accepted).

    Raises:
        BenchError: the drafter reads outputs that were not recorded.
        DrafterUnavailable: it needs a model.
    """
    context = context or DrafterContext()
    # A drafter that names no layer compares the lowest recorded one.
    context.hidden_layer = min(archive_contents(recording.archive)[1], default=None) if recording.archive else None
    drafter.setup(context)
    output = recording.output_ids
    sequence = Generation(
        recording.prompt_ids,
        SamplingParams(max_tokens=max(recording.max_tokens, len(output))),
        [PromptSegment(kind, length) for kind, length in recording.segments],
        drafter,
        None,
        frozenset(output[-1:] if recording.finish_reason == "stop" else ()),
        max_nodes=max_nodes,
        domain=recording.benchmark,
    )
    required_outputs = drafter.required_outputs
    check_required(required_outputs, recording.archive, drafter.name)
    archive = PassArchive.load(recording.archive, required_outputs.hidden) if recording.archive else None

    def outputs(first: int, count: int) -> ForwardOutputs:
        """Of `count` rows from position `first` on; the last one chose the token at the position after it."""
        chosen = first + count - len(recording.prompt_ids)
        return RecordedOutputs({}) if archive is None else archive.outputs(first, count, chosen)

    tree, accepted = DraftTree(), Accepted(output[:1], [], [None])  # prefill chooses the first token
    _commit(sequence, tree, accepted, outputs(0, len(recording.prompt_ids)))
    yield sequence.stats, accepted
    while len(sequence.tokens) < len(output):
        tree = DraftTree() if sequence.remaining <= 1 else drafter.draft(sequence, max_nodes).pruned(max_nodes)
        if tree.values:
            costs = context.cost.costs(sequence.position - 1, 1, len(tree))
            tree = tree.pruned(choose([tree], costs)[0])
        accepted = walk(tree, output[len(sequence.tokens) :])
        sources = [source for source in accepted.sources if source is not None]
        sequence.stats.record(tree, sources)
        # The step's root is the last token before it.
        _commit(sequence, tree, accepted, outputs(sequence.position - 1, len(accepted.tokens)))
        yield sequence.stats, accepted


def walk(tree: DraftTree, ahead: list[int]) -> Accepted:
    """Follow the coming tokens down the tree.

    Args:
        tree: the step's draft.
        ahead: the tokens to come, at least one.

    Returns:
        the accepted tokens and the bonus token. There is no bonus token if the answer ends inside the draft; the path
        then lacks the node of the last token, because no row after it is needed.
    """
    tokens: list[int] = []
    path: list[int] = []
    sources: list[TokenSource | None] = []
    node = ROOT
    for token in ahead:
        tokens.append(token)
        child = tree.child(node, token)
        sources.append(None if child is None else tree.sources[child])
        if child is None:
            break
        path.append(child)
        node = child
    return Accepted(tokens, path[: len(tokens) - 1], sources)


def _commit(sequence: Generation, tree: DraftTree, accepted: Accepted, outputs: ForwardOutputs) -> None:
    for token in accepted.tokens:
        sequence.history.push(token)
    sequence.extend(accepted.tokens)
    sequence.drafter.observe(sequence, tree, accepted, outputs)
