"""When a neural drafter runs beside the copies, and when it no longer does."""

from __future__ import annotations

from decoder import Engine, SamplingParams
from decoder.drafters.auto.drafter import AutoDrafter
from decoder.drafters.context import DrafterContext
from decoder.drafters.learning.neural_gate import EXPLORATION, NeuralGate
from decoder.planning.cost_curve import CostCurve
from tests.support.tiny_models import tiny_target

PASS, RUN, MORE = 1.0, 0.3, 0.05


def serve(gate: NeuralGate, added: int, steps: int, promised: float = 1.0) -> int:
    """Steps with one pass each; returns in how many the drafter ran."""
    runs = 0
    for _ in range(steps):
        if gate.should_run(promised, PASS, MORE):
            runs += 1
            gate.ran(promised, added, RUN)
        gate.add_credit(PASS)
    return runs


def test_a_drafter_that_adds_much_runs_always_once_it_was_tried() -> None:
    gate = NeuralGate()
    serve(gate, added=2, steps=400)
    assert serve(gate, added=2, steps=100) == 100


def test_a_drafter_that_adds_nothing_costs_at_most_a_hundredth() -> None:
    gate = NeuralGate()
    serve(gate, added=0, steps=100)
    runs = serve(gate, added=0, steps=10_000)
    assert 0 < runs * (RUN + MORE) <= EXPLORATION * 10_000 * PASS * 1.01 + 10 * (RUN + MORE)


def test_it_is_shut_where_copies_do_and_open_where_they_do_not() -> None:
    gate = NeuralGate()
    for _ in range(2000):
        serve(gate, added=2, steps=1, promised=1.0)
        serve(gate, added=0, steps=1, promised=12.0)
    assert serve(gate, added=2, steps=100, promised=1.0) == 100
    assert serve(gate, added=0, steps=1000, promised=12.0) * (RUN + MORE) <= 1000 * EXPLORATION + 10 * (RUN + MORE)


def test_a_change_for_the_better_is_noticed() -> None:
    gate = NeuralGate()
    serve(gate, added=0, steps=3000)
    serve(gate, added=3, steps=3000)
    assert serve(gate, added=3, steps=100) == 100


def answer(gate: NeuralGate, steps: int, prompt: int, row: float, added: int) -> tuple[int, float]:
    """One answer whose neural drafter begins `prompt` tokens behind; returns its runs and what catching up took."""
    behind, saved, runs, spent = prompt, 0.0, 0, 0.0
    for step in range(steps):
        yielded = 1
        if gate.should_run(1.0, PASS, MORE, behind, saved, (steps - step) * (1 + added)):
            gate.ran(1.0, added, RUN + behind * row, behind)
            spent += behind * row
            runs, yielded, behind, saved = runs + 1, 1 + added, 0, 0.0
        else:
            saved += gate.saving(1.0, PASS, MORE)
        behind += yielded
        gate.add_credit(PASS * yielded)
    return runs, spent


def test_catching_up_with_a_prompt_does_not_make_every_run_look_dear() -> None:
    """The first run of an answer processes the prompt. Taken for what a run costs, it shut the gate for good."""
    gate = NeuralGate()
    for _ in range(5):
        answer(gate, steps=200, prompt=1000, row=0.005, added=2)
    assert answer(gate, steps=200, prompt=1000, row=0.005, added=2)[0] > 180


def test_an_answer_too_short_to_pay_for_catching_up_is_not_made_to() -> None:
    gate = NeuralGate()
    for _ in range(5):
        answer(gate, steps=200, prompt=1000, row=0.005, added=2)
    short = [answer(gate, steps=6, prompt=1000, row=0.005, added=2) for _ in range(50)]
    assert sum(spent for _, spent in short) <= EXPLORATION * 50 * 6 * PASS * 3 + 10 * RUN
    assert sum(runs for runs, _ in short) < 10


def test_a_draft_model_whose_window_is_outgrown_says_nothing_of_its_worth() -> None:
    context = DrafterContext(draft_model=tiny_target("llama", 61, window=40))
    runs = []
    context.gate.ran = lambda *run: runs.append(run)  # type: ignore[method-assign,assignment]
    engine = Engine(tiny_target("llama", 61), "auto", context=context)
    for _ in engine.generate([7, 9, 11] * 20, SamplingParams(max_tokens=20, ignore_eos=True)):
        pass
    assert runs == []
    for _ in engine.generate([7, 9, 11], SamplingParams(max_tokens=20, ignore_eos=True)):
        pass
    assert len(runs) > 0


def test_in_a_shared_pass_a_run_is_held_against_what_all_of_it_yields() -> None:
    """While one answer drafts the others wait, so of the pass it may count its own share only."""
    curve = CostCurve()
    curve.set((0, 2), {1: 1.0, 64: 1.0})
    curve.observe = lambda *_: None  # type: ignore[method-assign]
    context = DrafterContext(draft_model=tiny_target("llama", 61), cost=curve)
    asked = []
    context.gate.should_run = lambda _, seconds, *__: bool(asked.append(seconds))  # type: ignore[method-assign,assignment,func-returns-value]
    engine = Engine(tiny_target("llama", 61), "auto", context=context)
    sequences = [engine.start([7, 9, 11 + i], SamplingParams(max_tokens=20, ignore_eos=True)) for i in range(4)]
    while not any(sequence.finished for sequence in sequences):
        engine.step(sequences)
    assert set(asked) == {0.25}


def test_auto_runs_a_draft_model_that_pays_and_drops_one_that_does_not() -> None:
    """The target as its own draft model, priced at a tenth or at ten times a pass; the answer is plain's."""
    target = tiny_target("llama", 61)
    params = SamplingParams(max_tokens=200, ignore_eos=True)
    answers, drafted = {}, {}
    for name, seconds in (("cheap", 1e-9), ("dear", 1e9)):
        curve = CostCurve()
        curve.set((0, 0), {1: 1.0, 64: 1.1})
        curve.observe = lambda *_: None  # type: ignore[method-assign]
        context = DrafterContext(draft_model=tiny_target("llama", 61), cost=curve)
        learn = context.gate.ran
        context.gate.ran = lambda promised, added, _s, _behind, learn=learn, s=seconds: learn(promised, added, s)  # type: ignore[method-assign,misc]
        engine = Engine(target, "auto", context=context)
        sequence = engine.start([7, 9, 11], params)
        engine.prefill(sequence)
        while not sequence.finished:
            engine.step([sequence])
        answers[name] = tuple(sequence.tokens)
        drafted[name] = sequence.stats.by_source.get("small_model")
    plain = [token for step in Engine(target, "plain").generate([7, 9, 11], params) for token in step.tokens]
    assert answers["cheap"] == answers["dear"] == tuple(plain)
    assert drafted["cheap"] is not None
    assert drafted["cheap"].accepted > 100
    assert drafted["dear"] is None or drafted["dear"].drafted <= 12


def test_auto_can_be_told_to_do_without() -> None:
    target, params = tiny_target("llama", 61), SamplingParams(max_tokens=60, ignore_eos=True)
    drafted = {}
    for neural in (True, False):
        curve = CostCurve()
        curve.set((0, 0), {1: 1.0, 64: 1.1})
        curve.observe = lambda *_: None  # type: ignore[method-assign]
        context = DrafterContext(draft_model=tiny_target("llama", 61), cost=curve)
        engine = Engine(target, "plain", context=context)
        drafter = AutoDrafter(neural=neural)
        drafter.setup(context)
        sequence = engine.start([7, 9, 11], params, drafter=drafter)
        engine.prefill(sequence)
        while not sequence.finished:
            engine.step([sequence])
        drafted[neural] = sequence.stats.by_source.get("small_model")
    assert drafted[True] is not None
    assert drafted[False] is None
