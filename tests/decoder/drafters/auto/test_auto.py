"""`auto`: what it proposes, in which order, what it learns, and how the engine cuts its trees."""

from __future__ import annotations

import json
import math
import random
from pathlib import Path

import pytest
import torch

import decoder.verify
from decoder import Corpus, Engine, PromptSegment, SamplingParams, Sequence
from decoder.drafters.auto.drafter import AutoDrafter
from decoder.drafters.context import DrafterContext
from decoder.drafters.learning.acceptance import AcceptanceTable, AcceptanceTables, feature_bucket, shipped
from decoder.drafts.accepted import Accepted
from decoder.drafts.tree import ROOT, DraftTree
from decoder.generation import Generation
from decoder.planning.cost_curve import AssumedCurve, CostCurve
from decoder.recording.pass_archive import RecordedOutputs
from decoder.recording.recording_drafter import RecordingDrafter
from tests.support.tiny_models import tiny_target

NO_ARTIFACTS = RecordedOutputs({})
RUN = [11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28]


def sequence_of(
    prompt: list[int],
    answer: list[int],
    segments: tuple[PromptSegment, ...] = (),
    corpora: tuple[Corpus, ...] = (),
    ends: frozenset[int] = frozenset(),
) -> tuple[Sequence, AutoDrafter]:
    drafter = AutoDrafter()
    drafter.setup(DrafterContext())
    params = SamplingParams(max_tokens=512)
    sequence = Generation(prompt, params, segments, drafter, None, ends, max_nodes=64, corpora=corpora)
    sequence.extend(answer)
    return sequence, drafter


def longest_branch(tree: DraftTree) -> list[int]:
    node = max(range(len(tree)), key=lambda n: tree.depths[n])
    tokens: list[int] = []
    while node != ROOT:
        tokens.insert(0, tree.tokens[node])
        node = tree.parents[node]
    return tokens


def step(sequence: Sequence, drafter: AutoDrafter, truth: list[int]) -> int:
    """One step against known tokens; returns how many of them it yielded."""
    tree = drafter.draft(sequence, 64)
    node, path = ROOT, []
    while len(path) + 1 < len(truth) and (child := tree.child(node, truth[len(path)])) is not None:
        path.append(child)
        node = child
    accepted = Accepted(truth[: len(path) + 1], path, [*(tree.sources[n] for n in path), None])
    sequence.extend(accepted.tokens)
    drafter.observe(sequence, tree, accepted, NO_ARTIFACTS)
    return len(accepted.tokens)


def test_values_never_rise_and_are_the_product_of_chances() -> None:
    source = random.Random(3)
    prompt = [source.randrange(12) for _ in range(400)]
    sequence, drafter = sequence_of(prompt, prompt[40:48])
    tree = drafter.draft(sequence, 64)
    assert len(tree) > 8
    assert tree.values == sorted(tree.values, reverse=True)
    for node, parent in enumerate(tree.parents):
        assert 0 < tree.values[node] <= (1.0 if parent == ROOT else tree.values[parent])
        siblings = [n for n in range(len(tree)) if tree.parents[n] == parent]
        assert sum(tree.values[n] for n in siblings) <= (1.0 if parent == ROOT else tree.values[parent]) + 1e-9


def test_a_long_match_is_drafted_far() -> None:
    sequence, drafter = sequence_of([*RUN * 1, *range(40, 60), *range(100, 140), 7], [*range(100, 112)])
    assert longest_branch(drafter.draft(sequence, 64))[:20] == list(range(112, 132))


def test_no_token_that_ends_the_answer_is_drafted_and_nothing_behind_it() -> None:
    """A question that is repeated stands before the end of its message, and that before the template's next words."""
    sequence, drafter = sequence_of([7, *RUN, 99, 50, 51, 52, 7], RUN[:12], ends=frozenset({99}))
    tree = drafter.draft(sequence, 64)
    assert longest_branch(tree)[-1] == RUN[-1]
    assert not {99, 50} & set(tree.tokens)
    sequence, drafter = sequence_of([7, *RUN, 99, 50, 51, 52, 7], RUN[:12])
    assert {99, 50} <= set(drafter.draft(sequence, 64).tokens)


def test_a_rejected_token_is_stepped_over_before_any_ngram_matches() -> None:
    """Replaced, put in, left out: the copied run is taken up again at once."""
    text = list(range(100, 180))
    for edit, rest in (("replaced", 21), ("put in", 20), ("left out", 22)):
        sequence, drafter = sequence_of([7, *text, 8], text[:6])
        step(sequence, drafter, [*text[6:20], 5])  # the run is followed, then comes a token it does not have
        assert sequence.tokens[-1] == 5
        tree = drafter.draft(sequence, 64)
        assert tree.child(ROOT, text[rest]) is not None, edit


def test_a_prediction_is_drafted_before_anything_was_generated() -> None:
    expected = tuple(range(200, 260))
    sequence, drafter = sequence_of([1, 2, 3], [4], corpora=(Corpus("prediction", expected),))
    tree = drafter.draft(sequence, 64)
    first = tree.child(ROOT, 200)
    assert first is not None
    assert tree.sources[first].segment == 1  # behind the prompt's only segment
    assert tree.sources[first].offset == 0


def test_a_segment_under_edit_is_drafted_before_anything_was_generated() -> None:
    segments = (PromptSegment("system", 3), PromptSegment("edited", 20), PromptSegment("instruction", 2))
    sequence, drafter = sequence_of([1, 2, 3, *range(200, 220), 8, 9], [4], segments)
    tree = drafter.draft(sequence, 64)
    first = tree.child(ROOT, 200)
    assert first is not None
    assert (tree.sources[first].segment, tree.sources[first].offset) == (1, 0)


def test_an_answer_that_opens_a_fence_goes_on_with_the_line_break_in_front_of_the_text_under_edit() -> None:
    segments = (PromptSegment("instruction", 3), PromptSegment("edited", 20), PromptSegment("template", 2))
    text = list(range(200, 220))
    sequence, drafter = sequence_of([1, 2, 3, *text, 8, 9], [4], segments)
    assert step(sequence, drafter, [3, *text]) > 3
    sequence, drafter = sequence_of([*text, 8, 9], [4], segments[1:])  # nothing stands in front of it
    assert drafter.draft(sequence, 64).child(ROOT, 200) is not None
    assert drafter.draft(sequence, 64).child(ROOT, 4) is None
    sequence, drafter = sequence_of([1, 2, 3, *text, 8, 9], [4], segments)
    step(sequence, drafter, [*text, 50])
    assert drafter.draft(sequence, 64).child(ROOT, 3) is None  # once copied from, it does not begin again


def test_unread_passages_are_copied_from() -> None:
    sequence, drafter = sequence_of([1, 2, 3], [61, 62, 63, 64], corpora=(Corpus("unread", tuple(range(60, 90))),))
    tree = drafter.draft(sequence, 64)
    assert longest_branch(tree)[:10] == list(range(65, 75))
    assert tree.sources[0].segment == 1


def test_repetition_goes_on_with_its_own_copy() -> None:
    sequence, drafter = sequence_of([5], [1, 2, 3] * 4)
    assert longest_branch(drafter.draft(sequence, 64))[:9] == [1, 2, 3] * 3


def test_it_learns_from_candidates_that_were_not_drafted() -> None:
    """The engine verified nothing, yet the true token shows what each candidate was worth."""
    source = random.Random(1)
    text = [source.randrange(1000) for _ in range(300)]
    sequence, drafter = sequence_of([*text, 3000], text[:5])
    before = drafter.draft(sequence, 64).values[0]
    for token in text[5:60]:
        drafter.draft(sequence, 64)
        sequence.extend([token])
        drafter.observe(sequence, DraftTree(), Accepted([token], [], [None]), NO_ARTIFACTS)
    assert drafter.draft(sequence, 64).values[0] > before


def test_what_never_comes_true_is_no_longer_drafted() -> None:
    source = random.Random(2)
    prompt = [source.randrange(5) for _ in range(200)]
    engine_like = DrafterContext()
    sequence, drafter = sequence_of(prompt, prompt[:4])
    drafter.setup(engine_like)
    first = sum(drafter.draft(sequence, 64).values)
    for _ in range(300):
        drafter.draft(sequence, 64)
        sequence.extend([source.randrange(1000, 2000), prompt[source.randrange(100)]])
        drafter.observe(sequence, DraftTree(), Accepted(sequence.tokens[-2:], [], [None, None]), NO_ARTIFACTS)
    assert sum(drafter.draft(sequence, 64).values) < 0.5 * first


def test_domains_learn_apart_and_are_kept(tmp_path: Path) -> None:
    tables = AcceptanceTables(tmp_path)
    for _ in range(2000):
        tables.of("a").learn(0, True)
    assert tables.of("a").probability(0) > 0.9
    assert tables.of("b").probability(0) == pytest.approx(shipped().probability(0), abs=0.05)
    tables.save()
    again = AcceptanceTables(tmp_path)
    assert again.of("a").probability(0) == pytest.approx(tables.of("a").probability(0), abs=0.01)
    value = json.loads(next(tmp_path.iterdir()).read_text())
    endless = {**value, "rows": [[row[0], math.inf, math.inf] for row in value["rows"]]}
    for broken in ("{broken", json.dumps(endless)):
        for file in tmp_path.iterdir():
            file.write_text(broken)
        assert AcceptanceTables(tmp_path).of("a").probability(0) == pytest.approx(shipped().probability(0), abs=0.05)


def test_tables_in_memory_are_bounded_and_come_back_as_they_were(tmp_path: Path) -> None:
    tables = AcceptanceTables(tmp_path, most=2)
    for _ in range(2000):
        tables.of("a").learn(0, True)
    learned = tables.of("a").probability(0)
    held = tables.of("b")
    for number in range(20):
        tables.of(f"c{number}")
    assert len(tables._tables) <= 3
    assert tables.of("b") is held, "an answer learns into it"
    assert "a" not in tables._tables
    assert tables.of("a").probability(0) == pytest.approx(learned, abs=0.01)


def test_the_shipped_table_knows_that_longer_matches_are_better() -> None:
    from decoder.drafters.learning.acceptance import feature_bucket

    table = shipped()
    chances = [table.probability(feature_bucket(length, 0, 0, 0, 0, 0)) for length in (1, 3, 8, 32)]
    assert chances == sorted(chances)
    assert chances[0] < 0.5
    assert chances[-1] > 0.8


def test_the_engine_verifies_only_what_pays() -> None:
    """With rows for nothing a whole tree is verified, with dear ones none; the answer stays the same."""
    target = tiny_target("llama", 61, memory=0.01)
    prompt = [7, 9, 11, 13, 15, 17] * 8
    steps: dict[str, tuple[int, int]] = {}
    answers = set()
    for name, seconds in (("free", {1: 1.0, 256: 1.0}), ("dear", {1: 1.0, 2: 5.0, 256: 1000.0})):
        curve = CostCurve()
        curve.set((0, 0), seconds)
        curve.observe = lambda *_: None  # type: ignore[method-assign]
        engine = Engine(target, "auto", context=DrafterContext(cost=curve))
        sequence = engine.start(prompt, SamplingParams(max_tokens=40))
        engine.prefill(sequence)
        while not sequence.finished:
            engine.step([sequence])
        steps[name] = (sequence.stats.steps, sequence.stats.drafted)
        answers.add(tuple(sequence.tokens))
    assert len(answers) == 1
    assert steps["dear"] == (39, 0)
    assert steps["free"][0] < 20


@pytest.mark.parametrize(("name", "temperature"), [("select", 0.01), ("greedy", 0.0)])
def test_choosing_many_tokens_does_not_make_a_pass_look_dear(
    name: str, temperature: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each takes its time in plain decoding too; with a large vocabulary and sampling that is milliseconds a token.
    Greedy choices are made all at once, and are a part of the pass.
    """
    clock = [0.0]
    monkeypatch.setattr("time.perf_counter", lambda: clock[0])
    curve = CostCurve()
    curve.set((0, 0), {1: 1.0, 256: 1.0})
    told: list[float] = []
    curve.observe = lambda _rows, _tokens, _sequences, seconds: told.append(seconds)  # type: ignore[method-assign]
    target = tiny_target("llama", 61, memory=0.01)
    engine = Engine(target, "auto", context=DrafterContext(cost=curve))

    def slow_pass(*args: object) -> object:
        clock[0] += 1.0
        return forward(*args)

    def slow_choice(*args: object, **options: object) -> object:
        clock[0] += 0.25
        return choose_token(*args, **options)

    forward, choose_token = target.forward_tree, getattr(decoder.verify, name)
    monkeypatch.setattr(target, "forward_tree", slow_pass)
    monkeypatch.setattr(f"decoder.verify.{name}", slow_choice)
    params = SamplingParams(temperature=temperature, seed=0, max_tokens=40, ignore_eos=True)
    steps = list(engine.generate([7, 9, 11, 13, 15, 17] * 8, params))
    assert max(len(step.tokens) for step in steps) > 4
    assert told == pytest.approx([1.25] * (len(steps) - 1))


def test_it_recycles_where_the_context_says_so() -> None:
    """What the target favoured after a token in one answer is drafted in the next, and comes true."""
    accepted = {}
    for recycle in (False, True):
        engine = Engine(
            tiny_target(memory=0.0), "auto", context=DrafterContext(cost=AssumedCurve(1.0, 1.1), recycle=recycle)
        )
        for _ in range(2):
            sequence = engine.start([5, 9, 14, 3], SamplingParams(max_tokens=40, ignore_eos=True))
            engine.prefill(sequence)
            while not sequence.finished:
                engine.step([sequence])
        accepted[recycle] = sequence.stats.by_source.get("recycling")
    assert accepted[False] is None
    assert accepted[True]


def test_what_it_recycles_is_what_the_target_said_after_the_same_tokens() -> None:
    """Accepted or not, a row teaches the context before it: here, what follows one token is always the same."""
    target = tiny_target(memory=0.0)
    context = DrafterContext(cost=AssumedCurve(1.0, 1.1), recycle=True)
    engine = Engine(target, "auto", context=context)
    sequence = engine.start([5, 9, 14, 3], SamplingParams(max_tokens=60, ignore_eos=True), max_nodes=16)
    engine.prefill(sequence)
    while sequence.remaining > 20:
        engine.step([sequence])
    table, known = context.next_tokens.of(""), 0
    for token in range(61):
        for before in range(61):
            drafted = table.likeliest(before, token, 1, 1, 0.0)[1]
            if drafted:
                logits = target.prefill([before, token], target.new_cache(2)).logits[-1]
                assert drafted == [int(logits.argmax())]
                known += 1
    assert known > 100


def test_it_drafts_alike_while_it_is_recorded() -> None:
    """A recording hands on the logits of rejected drafts, too."""
    steps = []
    for recorded in (False, True):
        context = DrafterContext(cost=AssumedCurve(1.0, 1.1), recycle=True)
        engine = Engine(tiny_target(memory=0.0), "auto", context=context)
        auto = AutoDrafter()
        drafter = RecordingDrafter(auto, logits=True, layers=frozenset()) if recorded else auto
        params = SamplingParams(max_tokens=60, ignore_eos=True)
        sequence = engine.start([5, 9, 14, 3], params, drafter=drafter, max_nodes=16)
        engine.prefill(sequence)
        while not sequence.finished:
            engine.step([sequence])
        table = context.next_tokens.of("")
        steps.append([table.likeliest(before, token, 8, 3, 0.0) for before in range(61) for token in range(61)])
    assert any(tokens for _, tokens, _ in steps[0])
    assert steps[0] == steps[1]


def test_a_table_that_knows_fewer_proposal_types_is_read(tmp_path: Path) -> None:
    """One proposal type was added behind nine."""
    features = {"length": 5, "proposal_type": 2, "kind": 3, "agreement": 4, "rank": 1, "recent_acceptance": 2}
    bucket = (((5 * 4 + 2) * 4 + 1) * 9 + 2) * 6 * 7 + 4 * 7 + 3
    learned = {
        "format": "acceptance 3, 72576 cells",
        "calibrator": AcceptanceTable().calibrator.state(),
        "rows": [[4 * 72576 + bucket, 90.0, 100.0]],
    }
    (tmp_path / "old.json").write_text(json.dumps(learned))
    table = AcceptanceTable.load(tmp_path / "old.json")
    assert table.probability(feature_bucket(**features)) > 0.8
    assert table.probability(feature_bucket(**{**features, "proposal_type": 9})) == AcceptanceTable().probability(0)


def test_an_empty_table_still_estimates() -> None:
    assert 0 < AcceptanceTable().probability(123) < 1


@pytest.mark.parametrize("options", [{"matches": 0}, {"longest": 0}])
def test_options_are_checked(options: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="at least 1"):
        AutoDrafter(**options)  # type: ignore[arg-type]


def test_of_equal_matches_the_one_whose_state_is_alike_comes_first() -> None:
    """PLD+'s ranking: the text says 5, 6 three times, the model's state tells which of them is meant."""
    text = [5, 6, 70, 1, 5, 6, 80, 2, 5, 6, 90, 3]
    for meant, follows in ((0, 70), (4, 80), (8, 90)):
        sequence, drafter = sequence_of([*text, 5], [6])
        drafter.setup(DrafterContext(hidden_layer=0))
        table = drafter._context.acceptance.of("")
        for _ in range(3000):
            table.calibrator.learn(0.4, 0, 0.95, None, None, True)
            table.calibrator.learn(0.4, 0, 0.05, None, None, False)
        states = torch.eye(len(sequence.prompt))
        states[-1] = states[meant]  # behind the second 5: as behind the 5 that is meant
        drafter.observe(sequence, DraftTree(), Accepted([6], [], [None]), RecordedOutputs({0: states}))
        tree = drafter.draft(sequence, 64)
        assert tree.tokens[0] == follows
