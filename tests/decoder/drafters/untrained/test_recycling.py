"""`recycling` against the model itself: what it drafts is what the target favoured after the same tokens before."""

from __future__ import annotations

import pytest
import torch

from decoder import Engine, Generation, SamplingParams
from decoder.drafters.context import DrafterContext
from decoder.drafters.learning.successors import MOST_DOMAINS, Successors, SuccessorsByDomain
from decoder.drafters.untrained.recycling import BEST, CHILDREN, TEMPLATE, RecyclingDrafter
from decoder.drafts.accepted import Accepted
from decoder.drafts.tree import ROOT, DraftTree
from decoder.model.forward_outputs import ForwardOutputs
from tests.support.tiny_models import tiny_target

VOCAB = 61
PROMPT = [5, 9, 14, 5, 9, 20, 33, 5]


def paths(tree: DraftTree) -> list[tuple[int, ...]]:
    made: list[tuple[int, ...]] = []
    for token, parent in zip(tree.tokens, tree.parents, strict=True):
        made.append((*(made[parent] if parent != ROOT else ()), token))
    return made


class Reading(RecyclingDrafter):
    """Keeps a matrix of its own as section 3 says, from passes of the target over plain text, and compares trees."""

    def __init__(self, target_of_rows: Engine) -> None:
        super().__init__()
        self._rows_of = target_of_rows
        self.matrix: dict[int, list[int]] = {}
        self.drafted: list[DraftTree] = []
        self.expected: list[set[tuple[int, ...]]] = []

    def best(self, text: list[int]) -> list[int]:
        target = self._rows_of.target
        logits = target.prefill(text, target.new_cache(len(text))).logits[-1]
        return sorted(range(VOCAB), key=lambda token: (-float(logits[token]), token))[:BEST]

    def draft(self, sequence: Generation, budget: int) -> DraftTree:  # type: ignore[override]
        tree = super().draft(sequence, budget)
        self.drafted.append(tree)
        wanted: set[tuple[int, ...]] = set()
        level: list[tuple[int, ...]] = [()]
        for counts in CHILDREN:
            following = []
            for path, count in zip(level, counts, strict=True):
                known = self.matrix.get((sequence.last_token, *path)[-1], []) if -1 not in path else []
                following += [(*path, token) for token in (known + [-1] * count)[:count]]
            wanted.update(path for path in following if -1 not in path)
            level = following
        self.expected.append(wanted)
        return tree

    def observe(self, sequence, tree, accepted, outputs) -> None:  # type: ignore[no-untyped-def]
        super().observe(sequence, tree, accepted, outputs)
        text = (sequence.prompt + sequence.tokens)[: -len(accepted.tokens)]
        on_path = [()] + [tuple(accepted.tokens[: size + 1]) for size in range(len(accepted.path))]
        for path in [*([] if outputs.tree_logits is None else paths(tree)), *on_path]:
            self.matrix[[*text, *path][-1]] = self.best([*text, *path])


@pytest.mark.parametrize("temperature", [0.0, 0.9])
def test_trees_are_those_of_a_plain_reading(temperature: float) -> None:
    engine = Engine(tiny_target("llama", VOCAB, memory=0.3), "plain")
    drafter = Reading(engine)
    params = SamplingParams(max_tokens=120, temperature=temperature, seed=4)
    sequence = engine.start(PROMPT, params, drafter=drafter, max_nodes=80)
    engine.prefill(sequence)
    while sequence.remaining > 80:
        engine.step([sequence])
    assert sequence.stats.accepted > 5
    assert max(len(tree) for tree in drafter.drafted) == len(TEMPLATE)
    for tree, wanted in zip(drafter.drafted, drafter.expected, strict=True):
        assert set(paths(tree)) == wanted


def test_the_template_is_the_papers() -> None:
    depths = [1]
    depths += [0] * (len(TEMPLATE) - 1)
    for node, (parent, rank) in enumerate(TEMPLATE):
        assert parent < node
        assert rank == 0 or (parent, rank - 1) in TEMPLATE[:node]
        depths[node] = 1 if parent == ROOT else depths[parent] + 1
    assert len(TEMPLATE) == 80
    assert [depths.count(level) for level in range(1, 7)] == [8, 21, 25, 15, 8, 3]


def drafting(context: DrafterContext, domain: str, remaining: int = 50) -> Generation:
    """A sequence whose prefill chose token 7 after 3, with the best tokens 7, 8, 9 ..., 14."""
    drafter = RecyclingDrafter()
    drafter.setup(context)
    params = SamplingParams(max_tokens=remaining + 1)
    sequence = Generation([3], params, (), drafter, None, frozenset(), domain=domain)
    logits = torch.full((1, 100), -50.0)
    logits[0, 7:15] = -torch.arange(8.0)
    sequence.extend([7])
    drafter.observe(sequence, DraftTree(), Accepted([7], [], [None]), ForwardOutputs(logits))
    sequence.extend([3])
    return sequence


def test_budget_nodes_and_the_end_of_the_answer_bound_it() -> None:
    context = DrafterContext()
    first = drafting(context, "a")
    tree = first.drafter.draft(first, 64)
    assert tree.tokens == list(range(7, 15))  # nothing is known after these
    assert len(first.drafter.draft(first, 5)) == 5
    assert len(first.drafter.draft(first, 0)) == 0
    context.successors.of("a", 100, BEST).update(range(100), [[*range(token, token + 8)] for token in range(100)])
    for budget in (1, 17, 64, 80):
        assert len(first.drafter.draft(first, budget)) == budget
    assert len(first.drafter.draft(first, 200)) == 80
    for remaining in (2, 3, 4):
        last = drafting(context, "a", remaining)
        assert max(last.drafter.draft(last, 80).depths, default=0) == last.remaining - 1


def test_a_domain_sees_nothing_of_another() -> None:
    context = DrafterContext()
    drafting(context, "tenant-a/papers")
    same, other = drafting(context, "tenant-a/papers"), drafting(context, "tenant-b/papers")
    matrix = context.successors.of("tenant-b/papers", 100, BEST)
    assert matrix.after(3) == list(range(7, 15))
    context.successors.of("tenant-a/papers", 100, BEST).update([3], [list(range(50, 58))])
    assert same.drafter.draft(same, 8).tokens == list(range(50, 58))
    assert other.drafter.draft(other, 8).tokens == list(range(7, 15))


def test_the_domain_used_longest_ago_goes_first() -> None:
    kept = SuccessorsByDomain()
    for number in range(MOST_DOMAINS):
        kept.of(str(number), 20, 8).update([1], [list(range(8))])
    assert kept.of("0", 20, 8).after(1) == list(range(8))
    kept.of("new", 20, 8)
    assert kept.of("0", 20, 8).after(1) == list(range(8))
    assert kept.of("1", 20, 8).after(1) == []
    assert kept.of("0", 21, 8).after(1) == []


def test_the_later_row_of_a_token_counts() -> None:
    matrix = Successors(10, 2)
    matrix.update([4, 5, 4], [[1, 2], [3, 4], [6, 7]])
    assert (matrix.after(4), matrix.after(5), matrix.after(6)) == ([6, 7], [3, 4], [])


@pytest.mark.parametrize("nodes", [0, 81])
def test_options_are_checked(nodes: int) -> None:
    with pytest.raises(ValueError, match="nodes"):
        RecyclingDrafter(nodes)
