"""Replay: a drafter scored on recorded tokens, step by step as the engine would go, without a model.

Knows sequences, drafters and recordings, and shows drafters what was kept of the passes that chose the tokens. A
drafter that reads what no recording keeps cannot be replayed.
"""

from __future__ import annotations

from decoder.bench.simulated.oracle import OracleDrafter
from decoder.drafters import Drafter
from decoder.drafters.context import DrafterContext
from decoder.drafts.accepted import Accepted
from decoder.drafts.stats import DecodeStats
from decoder.drafts.tree import ROOT, DraftTree, TokenSource
from decoder.generation import Generation
from decoder.model.forward_outputs import ForwardOutputs
from decoder.planning.budget import choose
from decoder.recording.kept_rows import Kept, RecordedOutputs, check_required, contents
from decoder.recording.record import Recording
from decoder.recording.specs import make_from_spec
from decoder.request import MAX_NODES
from decoder.sampling.params import SamplingParams
from decoder.sequence import PromptSegment

ORACLE = "oracle"


def make_drafter(spec: str, recording: Recording) -> Drafter:
    """A fresh drafter; `oracle` knows the recorded answer."""
    return OracleDrafter(recording.output_ids) if spec == ORACLE else make_from_spec(spec)


def replay(
    recording: Recording, drafter: Drafter, max_nodes: int = MAX_NODES, context: DrafterContext | None = None
) -> tuple[DecodeStats, int]:
    """Decode the recorded answer again, its tokens standing in for what the target selects.

    The last token of an answer that ended by itself is taken for one that ends answers.

    Args:
        context: its cost curve cuts valued trees, its acceptance tables (the domain is the recording's benchmark)
            learn; those of a new engine where None.

    Returns:
        (counts of the answer, tokens accepted from copies). `ms` stays zero.

    Raises:
        BenchError: the drafter reads what was not recorded. DrafterUnavailable: it needs a model.
    """
    context = context or DrafterContext()
    context.hidden_layer = _hidden_layer(recording)
    drafter.setup(context)
    output = recording.output_ids
    sequence = Generation(
        recording.prompt_ids,
        SamplingParams(max_tokens=max(recording.max_tokens, len(recording.output_ids))),
        [PromptSegment(kind, length) for kind, length in recording.segments],
        drafter,
        None,
        frozenset(output[-1:] if recording.finish_reason == "stop" else ()),
        max_nodes=max_nodes,
        domain=recording.benchmark,
    )
    passes = _Passes(recording, drafter)
    copied = 0
    tree, accepted = DraftTree(), Accepted(output[:1], [], [None])  # prefill chooses the first token
    _commit(sequence, tree, accepted, passes.prefill())
    while len(sequence.tokens) < len(output):
        first = len(sequence.tokens)
        tree = DraftTree() if sequence.remaining <= 1 else drafter.draft(sequence, max_nodes).pruned(max_nodes)
        if tree.values:
            costs = context.cost.costs(sequence.position - 1, 1, len(tree))
            tree = tree.pruned(choose([tree], costs)[0])
        accepted = walk(tree, output[first:])
        sources = [source for source in accepted.sources if source is not None]
        sequence.stats.record(tree, sources)
        copied += sum(source.offset is not None for source in sources)
        _commit(sequence, tree, accepted, passes.step(first, len(accepted.tokens)))
    return sequence.stats, copied


def walk(tree: DraftTree, ahead: list[int]) -> Accepted:
    """Follow the coming tokens down the tree.

    Args:
        tree: the step's draft.
        ahead: the tokens to come, at least one.

    Returns:
        the accepted tokens and the bonus token. There is no bonus token where the answer ends inside the draft; the
        node of its last token is then not in the path, since no row behind it is needed.
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


class _Passes:
    """What the passes of a recording left behind, as far as a drafter may read it."""

    def __init__(self, recording: Recording, drafter: Drafter) -> None:
        check_required(drafter.required_outputs, recording.kept, drafter.name)
        self._prompt = len(recording.prompt_ids)
        self._kept = Kept.load(recording.kept, drafter.required_outputs.hidden) if recording.kept else None

    def prefill(self) -> ForwardOutputs:
        return RecordedOutputs({}) if self._kept is None else self._kept.outputs(0, self._prompt, 0)

    def step(self, first: int, count: int) -> ForwardOutputs:
        """Of the step that chose the answer's tokens first .. first + count - 1; the root is the one before."""
        if self._kept is None:
            return RecordedOutputs({})
        return self._kept.outputs(self._prompt + first - 1, count, first + count - 1)


def _hidden_layer(recording: Recording) -> int | None:
    """The layer to compare, where the drafter names none: the lowest of those that were kept."""
    return min(contents(recording.kept)[1], default=None) if recording.kept else None


def _commit(sequence: Generation, tree: DraftTree, accepted: Accepted, outputs: ForwardOutputs) -> None:
    for token in accepted.tokens:
        sequence.history.push(token)
    sequence.extend(accepted.tokens)
    sequence.drafter.observe(sequence, tree, accepted, outputs)
