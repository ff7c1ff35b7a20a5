"""The scheduler thread: sharing an engine, failing alone, stopping."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from decoder import Engine, PromptSegment, PromptTooLong, SamplingParams
from tests.support.fake_workers import FakeEngine, speak
from tests.support.tiny_models import tiny_target
from workers.answers.assembly import assemble
from workers.broker.messages import Segment
from workers.errors import RuntimeClosed
from workers.tokens.tokenizer import Tokens
from workers.worker.runtime import GenerationHandle, Runtime

TEXT = "The quick brown fox jumps over the lazy dog."


@pytest.fixture
def open_runtime(tokens: Tokens) -> Iterator[Callable[[Any], Runtime]]:
    opened: list[Runtime] = []

    def open_(engine: Any) -> Runtime:
        opened.append(Runtime(engine, tokens))
        return opened[-1]

    yield open_
    for runtime in opened:
        runtime.close(20)


def ids_of(steps: GenerationHandle) -> list[int]:
    return [token for step in steps for token in step.tokens]


def test_answers_that_arrive_while_others_run_share_their_passes(
    tokens: Tokens, open_runtime: Callable[[Any], Runtime]
) -> None:
    all_in = threading.Event()

    def hold(sequence: Any) -> None:
        if sequence.tokens:
            assert all_in.wait(20)

    engine = FakeEngine(tokens, speak(tokens, TEXT), before_step=hold)
    runtime = open_runtime(engine)
    answers = [runtime.submit([number], SamplingParams()) for number in range(1, 4)]
    all_in.set()
    expected = [*tokens.encode_content(TEXT).ids, *tokens.eos_ids]
    assert [ids_of(steps) for steps in answers] == [expected] * 3
    assert max(engine.passes) >= 2


def test_an_answer_tells_how_many_prompts_come_first_and_counts_its_wait(
    tokens: Tokens, open_runtime: Callable[[Any], Runtime]
) -> None:
    """Eight questions at once: the last one was "queued" for milliseconds, and its first token took ten minutes."""
    holds, all_in = threading.Event(), threading.Event()
    told: list[list[int]] = [[], [], []]

    def hold(sequence: Any) -> None:
        if sequence.prompt == [1] and not sequence.tokens:
            holds.set()
            assert all_in.wait(20)

    runtime = open_runtime(FakeEngine(tokens, speak(tokens, TEXT), before_step=hold))
    first = runtime.submit([1], SamplingParams(), waiting=told[0].append)
    assert holds.wait(20)
    second = runtime.submit([2], SamplingParams(), waiting=told[1].append)
    third = runtime.submit([3], SamplingParams(), waiting=told[2].append)
    submitted = time.perf_counter()
    assert second.waited_ms == 0
    released = time.perf_counter()
    all_in.set()
    for answer in (first, second, third):
        assert ids_of(answer)
    assert told == [[], [], [1, 0]]
    assert min(second.waited_ms, third.waited_ms) >= 1e3 * (released - submitted) > 0


def test_a_bad_request_fails_alone_and_at_once(tokens: Tokens, open_runtime: Callable[[Any], Runtime]) -> None:
    runtime = open_runtime(FakeEngine(tokens, window=50))
    bad = runtime.submit([1] * 60, SamplingParams())
    good = runtime.submit([1], SamplingParams(max_tokens=4))
    with pytest.raises(PromptTooLong):
        next(bad)
    assert list(bad) == []
    assert bad.stats is None
    assert len(ids_of(good)) == 4


@pytest.mark.parametrize("fails_at", [0, 1, 5])
def test_a_failing_answer_costs_the_others_no_token(
    tokens: Tokens, open_runtime: Callable[[Any], Runtime], fails_at: int
) -> None:
    all_in = threading.Event()

    def maybe_fail(sequence: Any) -> None:
        if sequence.tokens:
            assert all_in.wait(20)
        if sequence.prompt == [2] and len(sequence.tokens) >= fails_at:
            raise RuntimeError("poison")

    runtime = open_runtime(FakeEngine(tokens, speak(tokens, TEXT), before_step=maybe_fail))
    answers = [runtime.submit([number], SamplingParams()) for number in (1, 2, 3)]
    all_in.set()
    with pytest.raises(RuntimeError, match="poison"):
        ids_of(answers[1])
    expected = [*tokens.encode_content(TEXT).ids, *tokens.eos_ids]
    assert ids_of(answers[0]) == ids_of(answers[2]) == expected
    assert ids_of(runtime.submit([4], SamplingParams())) == expected


def test_cancelling_ends_an_answer_with_what_it_has(tokens: Tokens, open_runtime: Callable[[Any], Runtime]) -> None:
    cancelled = threading.Event()
    runtime = open_runtime(FakeEngine(tokens, lambda prompt: [40] * 9000, window=20000))
    steps = runtime.submit([1], SamplingParams(max_tokens=9000), cancelled=cancelled.is_set)
    assert next(steps).finish_reason is None
    cancelled.set()
    *_, last = steps
    assert last.finish_reason in ("cancelled", "length")
    early = runtime.submit([1], SamplingParams(), cancelled=lambda: True)
    assert [(step.tokens, step.finish_reason) for step in early] == [((), "cancelled")]


def test_an_abandoned_answer_stops(tokens: Tokens, open_runtime: Callable[[Any], Runtime]) -> None:
    seen: list[int] = []
    go_on = threading.Event()

    def hold(sequence: Any) -> None:
        seen.append(len(sequence.tokens))
        assert not sequence.tokens or go_on.wait(20)

    runtime = open_runtime(FakeEngine(tokens, lambda prompt: [40] * 5000, before_step=hold))
    steps = runtime.submit([1], SamplingParams(max_tokens=5000))
    next(steps)
    steps.close()
    go_on.set()
    assert ids_of(runtime.submit([2], SamplingParams(max_tokens=1))) == [40]
    assert len(seen) < 10


def test_closing_tells_running_and_waiting_answers(tokens: Tokens) -> None:
    running, go_on = threading.Event(), threading.Event()

    def hold(sequence: Any) -> None:
        running.set()
        go_on.wait(20)

    runtime = Runtime(FakeEngine(tokens, before_step=hold), tokens)
    answers = [runtime.submit([number], SamplingParams()) for number in (1, 2)]
    assert running.wait(20)
    closer = threading.Thread(target=runtime.close)
    closer.start()
    assert runtime.closing.wait(20)
    go_on.set()
    closer.join(20)
    for steps in answers:
        with pytest.raises(RuntimeClosed):
            ids_of(steps)
    assert not runtime.alive
    with pytest.raises(RuntimeClosed):
        runtime.submit([1], SamplingParams())


def test_a_bug_in_the_scheduler_leaves_nobody_waiting(tokens: Tokens) -> None:
    class Broken(FakeEngine):
        def step(self, sequences: Any) -> Any:
            return []  # one step a sequence is missing

    runtime = Runtime(Broken(tokens), tokens)
    with pytest.raises(ValueError, match="zip"):
        ids_of(runtime.submit([1], SamplingParams()))
    runtime._thread.join(20)
    assert not runtime.alive


def test_segments_tile_the_prompt(tokens: Tokens) -> None:
    segments = [
        Segment(kind="template", key="t", text="<|im_start|>user\n"),
        Segment(kind="passage", key="p", text="<|im_start|>"),
        Segment(kind="passage", key="empty", text=""),
        Segment(kind="answer", key="a", text="ignored", ids=[5, 6]),
    ]
    prompt, parts = assemble(tokens, segments)
    assert [(part.kind, part.key) for part in parts] == [(s.kind, s.key) for s in segments]
    assert sum(part.length for part in parts) == len(prompt)
    assert prompt[0] in {tokens.encode_template("<|im_start|>")[0]}
    assert tokens.decode(prompt[parts[0].length : parts[0].length + parts[1].length]) == "<|im_start|>"
    assert prompt[-2:] == [5, 6]


@pytest.mark.parametrize("drafter", ["off", "casd"])
def test_the_real_engine_through_the_scheduler(
    tokens: Tokens, open_runtime: Callable[[Any], Runtime], drafter: str, tmp_path: Path
) -> None:
    target = tiny_target(vocab_size=tokens.vocab_size, memory=0.02)
    prompts = [tokens.encode_content(text).ids for text in ("one two one two", "the fox the fox the", "x")]
    params = [SamplingParams(max_tokens=24, temperature=0.8, seed=number) for number in range(3)]
    alone = Engine(target, "off", tokens.eos_ids)
    expected = [
        [token for step in alone.generate(prompt, one) for token in step.tokens]
        for prompt, one in zip(prompts, params, strict=True)
    ]
    runtime = open_runtime(Engine(target, "off", tokens.eos_ids))
    answers = [
        runtime.submit(
            prompt,
            one,
            segments=[PromptSegment("question", len(prompt), "q"), PromptSegment("passage", 0, "e")],
            drafter=drafter,
        )
        for prompt, one in zip(prompts, params, strict=True)
    ]
    assert [ids_of(steps) for steps in answers] == expected
    for steps, prompt in zip(answers, prompts, strict=True):
        assert steps.stats is not None
        assert steps.stats.prompt_tokens == len(prompt)
