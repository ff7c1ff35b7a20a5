"""`pld_plus` against a slow, literal reading of the paper (sections 4.2 and 4.3) on stock models, step by step."""

from __future__ import annotations

import dataclasses
import functools
import random
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
import pytest
import torch
from torch.nn.functional import normalize

from decoder import ROOT, DraftTree, Engine, SamplingParams, Sequence, TokenSource
from decoder.bench.simulated.replay import replay
from decoder.drafters import Drafter, make_drafter
from decoder.drafters.context import DrafterContext
from decoder.drafters.pld_plus import PldPlusDrafter, log_attention
from decoder.drafters.state_rows import StateRows
from decoder.drafts.accepted import Accepted
from decoder.errors import DrafterUnavailable
from decoder.generation import Generation
from decoder.model.forward_outputs import ForwardOutputs
from decoder.recording.record import Recording
from decoder.recording.recording_drafter import RecordingDrafter
from tests.support.tiny_models import ARCHITECTURES, tiny_model, tiny_target

VOCAB = 31
HEADS = ((0, 1), (0, 2), (0, 3), (1, 3))
"""Heads 0 and 1 share keys, and so do 2 and 3."""
CLOSE = 1e-6
"""Ranks closer than this may come out either way: the stock models' norms run in float32."""

MODES = {
    "greedy": SamplingParams(max_tokens=60, ignore_eos=True),
    "sampling": SamplingParams(max_tokens=60, ignore_eos=True, temperature=0.6, seed=5),
}


class Paper:
    """Equations 1 to 3, written down as they stand, on a stock model with eager attention."""

    def __init__(self, architecture: str, memory: float, ranking: str, layer: int) -> None:
        self.model: Any = tiny_model(architecture, VOCAB, memory=memory)
        self.model.set_attn_implementation("eager")
        self.ranking = ranking
        self.layer = layer

    def states(self, x: list[int]) -> torch.Tensor:
        """Output of the layer for every token of x. The stock model norms its last one, so it is hooked out."""
        kept: list[torch.Tensor] = []

        def keep(_module: object, _inputs: object, output: Any) -> None:
            kept.append((output[0] if isinstance(output, tuple) else output)[0])

        hook = self.model.model.layers[self.layer].register_forward_hook(keep)
        with torch.no_grad():
            made = self.model(torch.tensor([x]), output_hidden_states=True)
        hook.remove()
        if self.layer + 1 < len(self.model.model.layers):
            torch.testing.assert_close(kept[0], made.hidden_states[self.layer + 1][0], rtol=0, atol=0)
        return kept[0]

    def attentions(self, x: list[int]) -> list[torch.Tensor]:
        with torch.no_grad():
            made = self.model(torch.tensor([x]), output_attentions=True)
        return [layer[0] for layer in made.attentions]  # [heads, n, n] each

    def ranks(self, x: list[int]) -> dict[int, float]:
        """P and how each of it ranks; x holds the text with its last token x_t."""
        t = len(x) - 1
        occurrences = [j for j in range(t) if x[j] == x[t]]
        if not occurrences:
            return {}
        if self.ranking == "a":
            attentions = self.attentions(x[:t])
            return {j: max(float(attentions[layer][head, t - 1, j]) for layer, head in HEADS) for j in occurrences}
        states = self.states(x[:t])
        return {
            j: float(torch.cosine_similarity(states[j - 1], states[t - 1], dim=0)) if j else -2.0 for j in occurrences
        }


class CheckedDrafter(PldPlusDrafter):
    """Holds every draft against the paper."""

    def __init__(self, paper: Paper, **options: Any) -> None:
        super().__init__(**options)
        self.paper = paper
        self.steps = 0
        self.chosen: list[tuple[int, list[int]]] = []
        """(j*, P) of each step that had a choice."""

    def draft(self, sequence: Sequence, budget: int) -> DraftTree:
        tree = super().draft(sequence, budget)
        x = sequence.prompt + sequence.tokens
        ranks = self.paper.ranks(x)
        self.steps += 1
        size = min(self.length, budget, sequence.remaining - 1)
        best = [j for j, rank in ranks.items() if rank >= max(ranks.values()) - CLOSE]
        expected = [x[j + 1 : j + 1 + size] for j in best] or [[]]
        assert tree.tokens in expected
        assert tree.parents == list(range(ROOT, len(tree) - 1))
        if best:
            star = best[expected.index(tree.tokens)]
            assert tree.sources == [sequence.copy_of("pld_plus", star + 1 + i) for i in range(len(tree))]
        if len(ranks) > 1:
            self.chosen.append((best[0], list(ranks)))
        return tree


@functools.cache
def engine(architecture: str, memory: float) -> Engine:
    context = DrafterContext(induction_heads=HEADS)
    return Engine(tiny_target(architecture, VOCAB, memory=memory), "plain", [2], context=context)


def prompt(seed: int) -> list[int]:
    """Runs that occur several times, each time with something else before them."""
    source = random.Random(seed)
    run = [source.randrange(3, VOCAB) for _ in range(6)]
    ids: list[int] = []
    for _ in range(4):
        ids += [source.randrange(3, VOCAB) for _ in range(source.randint(1, 8))] + run
    return ids


def run(engine: Engine, ids: list[int], params: SamplingParams, drafter: Drafter | str) -> Sequence:
    sequence = engine.start(ids, params, drafter=drafter)
    engine.prefill(sequence)
    while not sequence.finished:
        engine.step([sequence])
    return sequence


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("memory", [1.0, 0.02])
@pytest.mark.parametrize("ranking", ["h", "a"])
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_every_draft_is_what_the_paper_says(
    architecture: str, ranking: Literal["h", "a"], memory: float, mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("decoder.model.target.PREFILL_CHUNK", 7)
    paper = Paper(architecture, memory, ranking, 0)
    steps = accepted = 0
    chosen: list[tuple[int, list[int]]] = []
    for seed in range(3):
        drafter = CheckedDrafter(paper, ranking=ranking)
        got = run(engine(architecture, memory), prompt(seed), MODES[mode], drafter)
        assert got.tokens == run(engine(architecture, memory), prompt(seed), MODES[mode], "plain").tokens
        steps += drafter.steps
        accepted += got.stats.accepted
        chosen += drafter.chosen
    assert steps > 20
    assert accepted > 10
    # The ranking decides: neither always the first occurrence nor always the latest.
    assert any(star != occurrences[0] for star, occurrences in chosen)
    assert any(star != occurrences[-1] for star, occurrences in chosen)


@pytest.mark.parametrize(("layer", "length"), [(1, 3), (0, 1), (1, 70)])
def test_layer_and_length_are_options(layer: int, length: int) -> None:
    drafter = CheckedDrafter(Paper("llama", 0.3, "h", layer), length=length, layer=layer)
    assert run(engine("llama", 0.3), prompt(1), MODES["greedy"], drafter).stats.drafted > 10
    assert drafter.steps > 10


@pytest.mark.parametrize("ids", [[7], [5, 5, 5], [9, 4, 9, 9]])
def test_short_prompts_and_an_occurrence_without_a_state(ids: list[int]) -> None:
    """The occurrence at 0 is chosen only where there is no other."""
    for ranking in ("h", "a"):
        drafter = CheckedDrafter(Paper("qwen2", 0.05, ranking, 0), ranking=ranking)
        run(engine("qwen2", 0.05), ids, MODES["greedy"], drafter)
        assert drafter.steps > 5


class Crowded(Drafter):
    """Drafts wrong siblings first, then PLD+'s chain, then PLD+'s chain again below a wrong token."""

    name: ClassVar[str] = "crowded"

    def __init__(self, inner: CheckedDrafter) -> None:
        self.inner = inner

    def setup(self, context: DrafterContext) -> None:
        self.inner.setup(context)
        self.required_outputs = self.inner.required_outputs

    def draft(self, sequence: Sequence, budget: int) -> DraftTree:
        chain = self.inner.draft(sequence, 12)
        tree = DraftTree()
        for i in range(2):
            tree.add((sequence.last_token + 1 + i) % VOCAB, ROOT, TokenSource(self.name))
        tree.add_chain(chain.tokens, chain.sources)
        tree.add_chain(chain.tokens, chain.sources, parent=0)
        return tree

    def observe(self, sequence: Sequence, tree: DraftTree, accepted: Accepted, outputs: ForwardOutputs) -> None:
        self.inner.observe(sequence, tree, accepted, outputs)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("ranking", ["h", "a"])
def test_paths_through_a_tree_of_several_drafters(ranking: Literal["h", "a"], mode: str) -> None:
    inner = CheckedDrafter(Paper("llama", 0.02, ranking, 0), ranking=ranking)
    got = run(engine("llama", 0.02), prompt(2), MODES[mode], Crowded(inner))
    assert got.stats.by_source["pld_plus"].accepted > 5
    assert inner.steps > 5


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_states_stay_those_of_the_committed_tokens_when_a_stop_cuts_the_path(architecture: str) -> None:
    """One state for every token but the last, which has none yet, wherever the answer ends."""
    cut = 0
    paper = Paper(architecture, 0.02, "h", 0)
    model = engine(architecture, 0.02)
    for seed in range(3, 7):
        said = run(model, prompt(seed), MODES["greedy"], "plain").tokens
        ids = [*prompt(seed), *said, said[0]]  # the answer goes over what was said again
        whole = run(model, ids, MODES["greedy"], "plain").tokens
        for stop in sorted(set(whole)):
            drafter = PldPlusDrafter()
            seen: list[int] = []
            params = SamplingParams(max_tokens=60, ignore_eos=True, stop_token_ids=(stop,))
            sequence = run(model, ids, params, _Watching(drafter, seen))
            assert sequence.tokens == whole[: whole.index(stop) + 1]
            text = sequence.prompt + sequence.tokens
            assert drafter.states is not None
            assert len(drafter.states) == len(text) - 1 == sequence.cache.length
            kept, expected = drafter.states.rows, paper.states(text[:-1])  # they are compared by direction alone
            torch.testing.assert_close(normalize(kept, dim=1), normalize(expected, dim=1), rtol=0, atol=CLOSE)
            cut += sum(seen) > len(sequence.tokens)
    assert cut > 4


@pytest.mark.parametrize("ranking", ["h", "a"])
def test_steps_that_a_near_tie_cuts_short_leave_the_right_rows(ranking: Literal["h", "a"]) -> None:
    """A strict answer's step may commit accepted tokens without a bonus token, or none at all."""
    target = tiny_target("llama", VOCAB, memory=0.02)
    doubting = Engine(target, "plain", [2], context=DrafterContext(induction_heads=HEADS), near_tie=1.0)
    params = dataclasses.replace(MODES["greedy"], exact="strict")
    drafter = CheckedDrafter(Paper("llama", 0.02, ranking, 0), ranking=ranking)
    got = run(doubting, prompt(1), params, drafter)
    assert got.tokens == run(doubting, prompt(1), MODES["greedy"], "plain").tokens
    assert got.stats.near_ties > 3
    assert got.stats.accepted > 3


class _Watching(Drafter):
    """Writes down how many tokens each walk accepted, cut or not."""

    name: ClassVar[str] = "watching"

    def __init__(self, inner: PldPlusDrafter, seen: list[int]) -> None:
        self.inner = inner
        self.seen = seen

    def setup(self, context: DrafterContext) -> None:
        self.inner.setup(context)
        self.required_outputs = self.inner.required_outputs

    def draft(self, sequence: Sequence, budget: int) -> DraftTree:
        return self.inner.draft(sequence, budget)

    def observe(self, sequence: Sequence, tree: DraftTree, accepted: Accepted, outputs: ForwardOutputs) -> None:
        self.seen.append(len(accepted.tokens))
        self.inner.observe(sequence, tree, accepted, outputs)


def test_a_pass_computes_only_what_the_ranking_reads() -> None:
    context = DrafterContext(target=tiny_target(), induction_heads=HEADS, hidden_layer=1)
    by_states, by_attention = PldPlusDrafter(), PldPlusDrafter("a")
    by_states.setup(context)
    by_attention.setup(context)
    assert (by_states.required_outputs.hidden, by_states.required_outputs.queries) == ({1}, set())
    assert (by_attention.required_outputs.hidden, by_attention.required_outputs.queries) == (set(), {0, 1})
    third = PldPlusDrafter()
    third.setup(DrafterContext(target=tiny_target()))
    assert third.required_outputs.hidden == {0}


@pytest.mark.parametrize(
    ("options", "context", "says"),
    [
        ({"ranking": "a"}, DrafterContext(target=tiny_target()), "rag models heads MODEL"),
        ({"ranking": "a"}, DrafterContext(induction_heads=HEADS), "no recording keeps"),
        ({"ranking": "a"}, DrafterContext(target=tiny_target(), induction_heads=((2, 0),)), "no head 0 in layer 2"),
        ({"ranking": "a"}, DrafterContext(target=tiny_target(), induction_heads=((0, 4),)), "no head 4 in layer 0"),
        ({"layer": 2}, DrafterContext(target=tiny_target()), "from 0 to 1"),
        ({}, DrafterContext(), "name the layer"),
    ],
)
def test_what_is_missing_is_said(options: dict[str, Any], context: DrafterContext, says: str) -> None:
    with pytest.raises(DrafterUnavailable, match=says):
        PldPlusDrafter(**options).setup(context)


def test_drafting_without_artifacts_is_refused() -> None:
    drafter = PldPlusDrafter(layer=0)
    drafter.setup(DrafterContext())
    sequence = Generation([5, 6, 5], SamplingParams(), (), drafter, None, frozenset())
    with pytest.raises(DrafterUnavailable, match="run it on a model"):
        drafter.draft(sequence, 64)


def test_a_recording_with_hidden_states_counts_what_decoding_counts(tmp_path: Path) -> None:
    model = engine("llama", 0.3)
    for seed in range(4):
        keeping = RecordingDrafter(make_drafter("plain"), logits=False, layers=frozenset({0}))
        answer = run(model, prompt(seed), MODES["greedy"], keeping).tokens
        path = tmp_path / f"{seed}.npz"
        keeping.archive().save(path)
        recording = Recording("a", "b", "c", 1, prompt(seed), answer, "tiny", "float64", "length", 60, archive=path)
        live = run(model, prompt(seed), MODES["greedy"], "pld_plus").stats
        counted, copied = replay(recording, PldPlusDrafter())
        assert (counted.steps, counted.drafted, counted.accepted) == (live.steps, live.drafted, live.accepted)
        assert copied == live.accepted > 0
        with pytest.raises(DrafterUnavailable, match="no recording keeps"):
            replay(recording, PldPlusDrafter("a"))


@pytest.mark.parametrize("options", [{"ranking": "x"}, {"length": 0}, {"layer": -1}])
def test_options_outside_their_range_are_named(options: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(options))):
        PldPlusDrafter(**options)


def test_it_is_known_by_name_with_the_papers_defaults() -> None:
    drafter = make_drafter("pld_plus")
    assert isinstance(drafter, PldPlusDrafter)
    assert (drafter.ranking, drafter.length) == ("h", 70)


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_state_rows_grow_and_keep_their_order(dtype: torch.dtype) -> None:
    states = torch.randn(40, 8, generator=torch.Generator().manual_seed(0), dtype=torch.float64).to(dtype)
    rows = StateRows(capacity=5, first=3)
    for start, stop in ((0, 4), (4, 5), (5, 5), (5, 30), (30, 40)):
        rows.append(states[start:stop])
        assert rows.end == 3 + stop
    assert rows.rows.dtype == dtype
    wide = torch.float64 if dtype == torch.float64 else torch.float32
    expected = torch.cosine_similarity(states[[1, 39, 0]].to(wide), states[20].to(wide), dim=1)
    torch.testing.assert_close(rows.cosines(np.array([4, 42, 3]), to=23), expected, rtol=0, atol=1e-6)


def test_attention_in_half_precision_is_taken_in_full() -> None:
    made = torch.Generator().manual_seed(1)
    keys = torch.randn(300, 64, generator=made).to(torch.bfloat16)
    queries = (0.1 * keys[:2].float() + torch.randn(2, 64, generator=made)).to(torch.bfloat16)
    at = torch.arange(0, 300, 3)
    exact = torch.log_softmax(0.125 * queries.double() @ keys.double().T, 1)[:, at]
    got = log_attention(queries, keys, at, 0.125)
    assert got.dtype == torch.float32
    torch.testing.assert_close(got.double(), exact, rtol=0, atol=1e-4)
