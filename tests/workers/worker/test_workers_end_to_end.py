"""Jobs through a real queue and a real Celery worker, with a scripted engine."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

import pytest

from decoder.errors import InvalidToken
from tests.support.fake_workers import FakeEngine, make_worker_context, running_worker, speak
from workers.broker import keys
from workers.broker.messages import (
    AnswerEvent,
    DoneEvent,
    ErrorEvent,
    GenerateJob,
    Sampling,
    Segment,
    Speculation,
    TokenEvent,
    TokenOrigin,
)
from workers.sessions.costs import Cost, Costs, TokenCounts
from workers.sessions.queue import Queue
from workers.sessions.sessions import Sessions
from workers.sessions.streams import AnswerStream
from workers.tokens.tokenizer import Tokens

WAIT_MS = 20_000


def make_job(tokens: Tokens, answer_id: str, question: str = "What jumps?", **changes: Any) -> GenerateJob:
    pieces = tokens.template_pieces([{"role": "user"}])
    segments = [
        Segment(kind="template", key=f"t{index}", text=piece)
        if isinstance(piece, str)
        else Segment(kind="question", key="q", text=question)
        for index, piece in enumerate(pieces)
    ]
    sampling = {"seed": 1, "max_tokens": 64, **changes.pop("sampling", {})}
    values: dict[str, Any] = {
        "answer_id": answer_id,
        "session_id": f"s-{answer_id}",
        "question": question,
        "segments": segments,
        "sampling": Sampling(**sampling),
        "created": 0.0,
    }
    return GenerateJob(**{**values, **changes})


def follow(client: Any, answer_id: str) -> list[AnswerEvent]:
    """Every event of an answer, up to its last."""
    stream = AnswerStream(client, "default", answer_id)
    after, events = "0-0", []
    while not events or events[-1].type not in ("done", "error"):
        entries = stream.read(after, block_ms=WAIT_MS)
        assert entries, f"no event came after {events}"
        after = entries[-1][0]
        events += [event for _, event in entries]
    return events


def token_events(events: Sequence[AnswerEvent]) -> list[TokenEvent]:
    return [event for event in events if isinstance(event, TokenEvent)]


def check_whole(events: Sequence[AnswerEvent]) -> DoneEvent:
    """What every finished answer's events must satisfy."""
    done = events[-1]
    assert isinstance(done, DoneEvent)
    written: list[int] = []
    for event in token_events(events):
        assert event.t == len(written)
        assert len(event.sources) == len(event.ids)
        written += event.ids
    assert written == done.ids
    assert "".join(event.text for event in token_events(events)) == done.text
    return done


def test_an_answer_from_queue_to_session(work: Any, queue: Queue, client: Any, tokens: Tokens) -> None:
    text = "The fox jumps over 東京 😀!"
    work(FakeEngine(tokens, speak(tokens, text)))
    job = make_job(tokens, "a1", passages=[{"text": "p"}], turn=0)
    queue.enqueue_generate(job)
    events = follow(client, "a1")
    assert events[0].type == "passages"
    done = check_whole(events)
    assert (done.text, done.finish_reason) == (text, "stop")
    assert done.ids[-1] in tokens.eos_ids
    prompt = sum(
        len(tokens.encode_template(s.text) if s.kind == "template" else tokens.encode_content(s.text).ids)
        for s in job.segments
    )
    assert done.usage == {
        "prompt_tokens": prompt,
        "completion_tokens": len(done.ids),
        "total_tokens": prompt + len(done.ids),
        "prompt_tokens_details": {"cached_tokens": 0},
    }
    assert done.speculation["by_source"]["fake"]["accepted"] == done.speculation["accepted"] > 0
    assert done.speculation["plain_equivalent_steps"] == len(done.ids) - 1
    assert set(done.speculation["ms"]) == {"draft", "verify", "prefill"}
    assert set(done.timings) == {"queued", "prefill", "first_token", "decode", "total"}
    assert 0 < done.timings["first_token"] <= done.timings["total"]
    ((_, cost),) = Costs(client).by_day("default", 1)
    assert cost == Cost("decoder", "", "", TokenCounts(prompt, 0, len(done.ids)))
    origins = [source for event in token_events(events) for source in event.sources]
    assert origins[1] == TokenOrigin(drafter="fake", segment=0, offset=1)
    record = AnswerStream(client, "default", "a1").record()
    assert record is not None
    assert (record["status"], record["result"]) == ("succeeded", done)
    (turn,) = Sessions(client).turns("default", "s-a1")
    assert turn.segments[:-1] == job.segments
    assert (turn.segments[-1].ids, turn.segments[-1].text) == (done.ids[:-1], text)
    assert turn.passages == [{"text": "p"}]


def test_an_answer_that_another_model_began_says_so(work: Any, queue: Queue, client: Any, tokens: Tokens) -> None:
    """As after a restore into a stack with another model: the message named a token id."""
    queue.enqueue_generate(make_job(tokens, "begun"))
    stream = AnswerStream(client, "default", "begun")
    stream.start()
    stream.write(TokenEvent(t=0, ids=[tokens.vocab_size], text="x"))

    class Engine(FakeEngine):
        def start(self, *arguments: Any, **options: Any) -> Any:
            for token in options.get("resumed", ()):
                if token >= tokens.vocab_size:
                    raise InvalidToken(token, tokens.vocab_size)  # as our own engine
            return super().start(*arguments, **options)

    work(Engine(tokens))
    *_, last = follow(client, "begun")
    assert last.code == "invalid_request"
    assert "begun with another model" in last.detail


def test_a_follow_up_prompt_continues_the_ids_of_the_first(
    work: Any, queue: Queue, client: Any, tokens: Tokens
) -> None:
    prompts: list[list[int]] = []

    def script(prompt: Sequence[int]) -> list[int]:
        if not prompts or prompts[-1] != list(prompt):
            prompts.append(list(prompt))
        return tokens.encode_content("Yes.").ids

    work(FakeEngine(tokens, script))
    queue.enqueue_generate(make_job(tokens, "a1", session_id="s"))
    done = check_whole(follow(client, "a1"))
    (turn,) = Sessions(client).turns("default", "s")
    pieces = tokens.template_pieces([{"role": "user"}, {"role": "assistant"}, {"role": "user"}])
    new = [
        Segment(kind="template", key="x", text=str(pieces[4])),
        Segment(kind="question", key="q2", text="And then?"),
        Segment(kind="template", key="y", text=str(pieces[6])),
    ]
    earlier = turn.segments
    queue.enqueue_generate(
        make_job(tokens, "a2", session_id="s", segments=[*earlier, *new], new_from=len(earlier), turn=1)
    )
    check_whole(follow(client, "a2"))
    assert prompts[1][: len(prompts[0]) + len(done.ids)] == prompts[0] + done.ids
    second = Sessions(client).turns("default", "s")[1]
    assert second.segments[:-1] == new


def test_strict_answers_say_how_many_near_ties_they_decided(
    work: Any, queue: Queue, client: Any, tokens: Tokens
) -> None:
    from decoder import Engine
    from tests.support.tiny_models import tiny_target

    target = tiny_target(vocab_size=tokens.vocab_size, memory=0.01)
    work(Engine(target, "plain", near_tie=float("inf")))
    made = {}
    for name, exact, drafter in (
        ("plain", "default", "off"),
        ("usual", "default", "casd"),
        ("strict", "strict", "casd"),
    ):
        sampling = {"max_tokens": 40, "exact": exact}
        job = make_job(tokens, f"e-{name}", sampling=sampling, speculation=Speculation(drafter=drafter))
        queue.enqueue_generate(job)
        made[name] = check_whole(follow(client, job.answer_id))
    assert made["plain"].ids == made["usual"].ids == made["strict"].ids
    for name in ("plain", "usual"):
        assert made[name].speculation["near_ties"] == made[name].speculation["extra_passes"] == 0
    counts = made["strict"].speculation
    assert counts["near_ties"] == counts["extra_passes"] > 0
    assert counts["near_ties_changed"] == 0


def test_stop_strings_cut_the_text_but_not_the_ids(work: Any, queue: Queue, client: Any, tokens: Tokens) -> None:
    work(FakeEngine(tokens, speak(tokens, "The quick brown fox jumps over"), tokens_per_step=4))
    queue.enqueue_generate(make_job(tokens, "a1", sampling={"stop": ["fox j", "never"]}))
    done = check_whole(follow(client, "a1"))
    assert (done.text, done.finish_reason) == ("The quick brown ", "stop")
    assert "fox j" in tokens.decode(done.ids)
    assert "fox j" not in tokens.decode(done.ids[:-1])


def test_a_length_limit_and_an_unfinished_character(work: Any, queue: Queue, client: Any, tokens: Tokens) -> None:
    work(FakeEngine(tokens, speak(tokens, "x🦊🦊")))
    queue.enqueue_generate(make_job(tokens, "a1", sampling={"max_tokens": 3}))
    done = check_whole(follow(client, "a1"))
    assert (done.text, done.finish_reason, len(done.ids)) == (tokens.decode(done.ids), "length", 3)
    assert done.text.endswith("\ufffd")


def test_a_running_answer_can_be_cancelled(work: Any, queue: Queue, client: Any, tokens: Tokens) -> None:
    never = threading.Event()

    def slow(sequence: Any) -> None:
        never.wait(0.005)

    work(FakeEngine(tokens, lambda prompt: [40] * 4000, tokens_per_step=1, before_step=slow))
    queue.enqueue_generate(make_job(tokens, "a1", sampling={"max_tokens": 4000}))
    stream, after, seen = AnswerStream(client, "default", "a1"), "0-0", 0
    while seen < 3:
        entries = stream.read(after, block_ms=WAIT_MS)
        after, seen = entries[-1][0], seen + len(entries)
    assert queue.cancel("default", "a1")
    done = check_whole(follow(client, "a1"))
    assert done.finish_reason == "cancelled"
    assert 0 < len(done.ids) < 4000
    (turn,) = Sessions(client).turns("default", "s-a1")
    assert turn.segments[-1].ids == done.ids
    assert not client.exists(keys.answer_cancel("default", "a1"))


def test_an_answer_cancelled_in_the_queue_says_nothing(work: Any, queue: Queue, client: Any, tokens: Tokens) -> None:
    queue.enqueue_generate(make_job(tokens, "a1"))
    assert queue.cancel("default", "a1")
    work(FakeEngine(tokens))
    done = check_whole(follow(client, "a1"))
    assert (done.finish_reason, done.ids, done.text) == ("cancelled", [], "")
    assert Sessions(client).turns("default", "s-a1") == []


@pytest.mark.parametrize(
    ("changes", "code", "says"),
    [
        ({"sampling": {"max_tokens": 9000}}, "prompt_too_long", "retrieve fewer passages"),
        ({"speculation": Speculation(drafter="magic")}, "unknown_drafter", "choose one of"),
        ({"sampling": {"logit_bias": {10**6: 1.0}}}, "invalid_request", "token id 1000000"),
        ({"sampling": {"stop": [""]}}, "invalid_request", "empty"),
    ],
)
def test_bad_requests_become_error_events(
    work: Any, queue: Queue, client: Any, tokens: Tokens, changes: dict[str, Any], code: str, says: str
) -> None:
    work(FakeEngine(tokens))
    queue.enqueue_generate(make_job(tokens, "a1", **changes))
    error = follow(client, "a1")[-1]
    assert isinstance(error, ErrorEvent)
    assert error.code == code
    assert says in error.detail
    record = AnswerStream(client, "default", "a1").record()
    assert record is not None
    assert record["status"] == "failed"
    assert Sessions(client).turns("default", "s-a1") == []


def test_an_answer_that_fails_leaves_the_others_whole(work: Any, queue: Queue, client: Any, tokens: Tokens) -> None:
    def fail(sequence: Any) -> None:
        text = tokens.decode(sequence.prompt)
        if "poison" in text and len(sequence.tokens) >= 4:
            raise RuntimeError("CUDA out of memory") if "memory" in text else KeyError("secret")

    questions = {"a1": "good one", "a2": "poison", "a3": "good two", "a4": "poison memory"}
    for answer_id, question in questions.items():
        queue.enqueue_generate(make_job(tokens, answer_id, question))
    work(FakeEngine(tokens, before_step=fail))
    ends = {answer_id: follow(client, answer_id) for answer_id in questions}
    assert {check_whole(ends[name]).finish_reason for name in ("a1", "a3")} == {"stop"}
    errors = [ends[name][-1] for name in ("a2", "a4")]
    assert [getattr(error, "code", None) for error in errors] == ["internal_error", "out_of_memory"]
    assert "secret" not in errors[0].detail  # type: ignore[union-attr]


def test_a_worker_that_stops_hands_its_answer_to_the_next(
    queue: Queue, client: Any, tokens: Tokens, redis_url: str
) -> None:
    text = "The quick brown fox jumps over the lazy dog. 😀 It jumps."
    reached = threading.Event()
    go_on = threading.Event()

    def stall(sequence: Any) -> None:
        if len(sequence.tokens) >= 7:
            reached.set()
            go_on.wait(20)

    first = make_worker_context(
        redis_url, tokens, FakeEngine(tokens, speak(tokens, text), before_step=stall), name="first"
    )
    queue.enqueue_generate(make_job(tokens, "a1"))
    with running_worker(redis_url, first):
        assert reached.wait(20)
        stream = AnswerStream(client, "default", "a1")
        while len(token_events([event for _, event in stream.read()])) < 3:
            pass
        first.runtime.closing.set()
        go_on.set()
    streamed = token_events([event for _, event in AnswerStream(client, "default", "a1").read()])
    assert 0 < sum(len(event.ids) for event in streamed) < len(tokens.encode_content(text).ids)
    second = make_worker_context(
        redis_url, tokens, FakeEngine(tokens, speak(tokens, text), tokens_per_step=5), name="second"
    )
    with running_worker(redis_url, second):
        events = follow(client, "a1")
    assert check_whole(events).text == text
    assert token_events(events)[: len(streamed)] == streamed
    assert len(Sessions(client).turns("default", "s-a1")) == 1


def test_an_erased_session_stops_its_running_answer(work: Any, queue: Queue, client: Any, tokens: Tokens) -> None:
    begun, erased = threading.Event(), threading.Event()

    def hold(sequence: Any) -> None:
        if sequence.tokens:
            begun.set()
            erased.wait(20)

    engine = FakeEngine(tokens, lambda prompt: [40] * 3000, before_step=hold)
    place = work(engine)
    queue.enqueue_generate(make_job(tokens, "a1", sampling={"max_tokens": 3000}))
    assert begun.wait(20)
    assert Sessions(client).erase("default", "s-a1")
    erased.set()
    queue.enqueue_generate(make_job(tokens, "a2"))
    check_whole(follow(client, "a2"))
    while place.runtime._running:
        pass
    assert [name for name in client.keys("rag:*") if "a1" in name] == []
