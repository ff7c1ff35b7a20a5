"""What a client predicts and what an edit starts from, through a real queue, worker and engine.

The tiny model may only say capital letters, which this tokenizer never merges: its text has one tokenization.
"""

from __future__ import annotations

import string
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from decoder import Engine
from tests.support.fake_workers import make_worker_context, running_worker
from tests.support.tiny_models import tiny_target
from workers.answers.assembly import assemble
from workers.broker.messages import DoneEvent, Edit, GenerateJob, Sampling, Segment, Speculation, TokenEvent
from workers.sessions.queue import Queue
from workers.sessions.streams import AnswerStream
from workers.tokens.tokenizer import Tokens

WAIT_MS = 20_000
DETAILS = "completion_tokens_details"


@pytest.fixture
def work(redis_url: str, tokens: Tokens) -> Iterator[Callable[[float], None]]:
    """Starts a worker whose model looks back as far as `memory` lets it."""
    import contextlib

    with contextlib.ExitStack() as stack:

        def start(memory: float) -> None:
            engine = Engine(tiny_target(vocab_size=tokens.vocab_size, memory=memory), "auto")
            stack.enter_context(running_worker(redis_url, make_worker_context(redis_url, tokens, engine)))

        yield start


@pytest.fixture
def answer(queue: Queue, client: Any, tokens: Tokens) -> Callable[..., DoneEvent]:
    """Generates the answer of a job with some fields of its own."""
    letters = {tokens.encode_content(letter).ids[0] for letter in string.ascii_uppercase}
    bias = {token: -100.0 for token in range(tokens.vocab_size) if token not in letters}
    made = 0

    def run(**changes: Any) -> DoneEvent:
        nonlocal made
        made += 1
        sampling = {"max_tokens": 60, "seed": 1, "logit_bias": bias, **changes.pop("sampling", {})}
        values: dict[str, Any] = {
            "answer_id": f"a{made}",
            "session_id": f"s{made}",
            "question": "What?",
            "segments": [Segment(kind="question", key="q", text="Say letters. ")],
            "sampling": Sampling(**sampling),
            "created": 0.0,
        }
        job = GenerateJob(**{**values, **changes})
        queue.enqueue_generate(job)
        stream, after, events = AnswerStream(client, "default", job.answer_id), "0-0", []
        while not events or events[-1].type != "done":
            entries = stream.read(after, block_ms=WAIT_MS)
            assert entries, f"no event came after {events}"
            after = entries[-1][0]
            events += [event for _, event in entries]
            assert events[-1].type != "error", events[-1]
        done = events[-1]
        assert isinstance(done, DoneEvent)
        predicted = job.edit.segment if job.edit else job.predicted_segment
        origins = [origin for event in events if isinstance(event, TokenEvent) for origin in event.sources]
        if DETAILS in done.usage:
            copied = sum(origin is not None and origin.segment == predicted for origin in origins)
            assert done.usage[DETAILS]["accepted_prediction_tokens"] == copied  # type: ignore[index]
        return done

    return run


OFF, AUTO = Speculation(drafter="off"), Speculation(drafter="auto")


def test_only_the_answer_under_edit_is_tagged(tokens: Tokens) -> None:
    segments = [
        Segment(kind="answer", key="a1", text="A", ids=[40, 41]),
        Segment(kind="edited", key="a0", text="B", ids=[42]),
        Segment(kind="edited", key="a1", text="A", ids=[40, 41]),
    ]
    for edited, kinds in (
        (None, ["answer"] * 3),
        (0, ["edited", "answer", "answer"]),
        (2, [*["answer"] * 2, "edited"]),
    ):
        prompt, parts = assemble(tokens, segments, edited)
        assert prompt == [40, 41, 42, 40, 41]
        assert [part.kind for part in parts] == kinds
        assert [part.length for part in parts] == [2, 1, 2]


@pytest.mark.parametrize("sampling", [{}, {"temperature": 0.8, "seed": 5}], ids=["greedy", "sampled"])
def test_a_prediction_changes_the_passes_and_nothing_else(work: Any, answer: Any, sampling: dict[str, Any]) -> None:
    work(1.0)
    plain = answer(speculation=OFF, sampling=sampling)
    assert DETAILS not in plain.usage
    without = answer(speculation=AUTO, sampling=sampling)
    right = answer(speculation=AUTO, sampling=sampling, prediction=plain.text)
    changed = plain.text[:30] + "XQ" + plain.text[33:]
    close = answer(speculation=AUTO, sampling=sampling, prediction=changed)
    for one in (without, right, close):
        assert (one.ids, one.text, one.finish_reason) == (plain.ids, plain.text, plain.finish_reason)
    counts = right.usage[DETAILS]
    assert counts["accepted_prediction_tokens"] > len(plain.ids) / 2
    assert right.speculation["steps"] < without.speculation["steps"]
    assert close.usage[DETAILS]["rejected_prediction_tokens"] > 0
    assert close.usage[DETAILS]["accepted_prediction_tokens"] > len(plain.ids) / 3


def test_a_useless_prediction_is_rejected(work: Any, answer: Any) -> None:
    work(1.0)
    plain = answer(speculation=OFF)
    wrong = answer(speculation=AUTO, prediction=plain.text[::-1] * 3)
    assert wrong.ids == plain.ids
    assert wrong.usage[DETAILS]["accepted_prediction_tokens"] < len(plain.ids) / 4


@pytest.mark.parametrize("drafter", ["off", "pld"])
def test_drafters_that_read_no_predictions_count_none(work: Any, answer: Any, drafter: str) -> None:
    work(1.0)
    plain = answer(speculation=OFF)
    made = answer(speculation=Speculation(drafter=drafter), prediction=plain.text)
    assert made.ids == plain.ids
    assert made.usage[DETAILS] == {"accepted_prediction_tokens": 0, "rejected_prediction_tokens": 0}


def test_a_prediction_stands_behind_the_passages_that_were_not_read(work: Any, answer: Any) -> None:
    work(1.0)
    plain = answer(speculation=OFF)
    passages = [{"chunk_id": f"c{n}", "text": "ZQ" * 20, "in_prompt": n == 0} for n in range(3)]
    made = answer(speculation=AUTO, prediction=plain.text, passages=passages)
    assert made.ids == plain.ids
    assert made.usage[DETAILS]["accepted_prediction_tokens"] > len(plain.ids) / 2


def test_the_text_under_edit_is_copied_from_first(work: Any, answer: Any) -> None:
    work(0.01)
    base = answer(speculation=OFF)
    segments = [
        Segment(kind="question", key="q", text="Say letters. "),
        Segment(kind="answer", key="a1", text=base.text, ids=base.ids),
        Segment(kind="instruction", key="i", text="Say letters. "),
    ]
    edit = Edit(base="a1", root="a1", version=2, instruction="More.", segment=1, text=base.text)
    plain = answer(speculation=OFF, segments=segments, edit=edit)
    assert plain.usage[DETAILS] == {"accepted_prediction_tokens": 0, "rejected_prediction_tokens": 0}
    made = answer(speculation=AUTO, segments=segments, edit=edit)
    assert made.ids == plain.ids
    assert made.usage[DETAILS]["accepted_prediction_tokens"] > 0
    assert made.speculation["steps"] < plain.speculation["steps"] / 3
