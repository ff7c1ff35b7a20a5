"""Second answers: one that says yes to what the passages do not state is given again, and the better one is shown."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

from tests.support.fake_workers import FakeEngine
from workers.broker.messages import Checking, DoneEvent, GenerateJob, Sampling, Segment, Speculation, TokenEvent
from workers.sessions.costs import Costs
from workers.sessions.queue import Queue
from workers.sessions.sessions import Sessions
from workers.sessions.streams import AnswerStream
from workers.support.calibration import ENGINE, Calibration, Logistic
from workers.tokens.tokenizer import Tokens
from workers.worker.second_answer import MOST_HELD
from workers.worker.supporter import Supporter

PASSAGE = "The quick brown fox jumps over the lazy dog every morning before breakfast."
QUESTION = "Is the quick brown fox asleep every morning before breakfast?"
FIRST = "Yes, it flies to the moon."
Ask = Callable[..., DoneEvent]


@dataclass
class Stage:
    """What the engine says, first and second."""

    first: str = FIRST
    second: str = PASSAGE
    asked: list[bool] = field(default_factory=list)
    """Of each answer, whether it may not begin as it likes."""
    before_second: Callable[[], object] = lambda: None
    room: int = 2**20
    slow: bool = False

    @property
    def times(self) -> int:
        return len(self.asked)


@pytest.fixture
def stage() -> Stage:
    return Stage()


@pytest.fixture
def ask(stage: Stage, tokens: Tokens, work: Any, queue: Queue, client: Any) -> Ask:
    """Asks, and gives the last event of the answer; all events have to fit together."""

    def before_step(sequence: Any) -> None:
        if not sequence.tokens:
            stage.asked.append(bool(sequence.params.openings))
            if sequence.params.openings:
                stage.before_second()
        if stage.slow:
            threading.Event().wait(0.005)

    engine = FakeEngine(
        tokens,
        lambda prompt: tokens.encode_content(stage.first).ids,
        tokens_per_step=2,
        before_step=before_step,
        second=lambda prompt: tokens.encode_content(stage.second).ids,
    )
    evidence = Logistic(0.0, {"evidence": 2.0}, {"evidence": 0.4}, {"evidence": 0.2})
    own = Calibration("fake", "float32", ENGINE, "", evidence, evidence, 0.05, 0, ["en"])
    number = 0

    def asked(before: Callable[[AnswerStream], None] | None = None, **changes: Any) -> DoneEvent:
        nonlocal number
        number += 1
        made = job(tokens, f"a{number}", **changes)
        queue.enqueue_generate(made)
        if before is not None:
            before(AnswerStream(client, "default", made.answer_id))
        if number == 1:
            work(engine, kv_cache_bytes=stage.room, supporter=Supporter(tokens, "fake", "float32", own))
        return done_of(client, made.answer_id)

    return asked


def job(tokens: Tokens, answer_id: str, checking: dict[str, Any] | None = None, **changes: Any) -> GenerateJob:
    openings = [tokens.encode_content(text).ids for text in ("Yes", "No", "The documents")]
    fields: dict[str, Any] = {
        "answer_id": answer_id,
        "session_id": f"s-{answer_id}",
        "question": QUESTION,
        "segments": [
            Segment(kind="passage", key="p", text=PASSAGE),
            Segment(kind="question", key="q", text=QUESTION),
            Segment(kind="template", key="t", text="<|im_end|>\n"),
        ],
        "passages": [{"title": "Foxes", "text": PASSAGE, "chunk_id": "c", "document_id": "d"}],
        "sampling": Sampling(max_tokens=200, seed=1),
        "checking": Checking(**{"question": QUESTION, "openings": openings, "doubtful_below": 0.5, **(checking or {})}),
        "created": 0.0,
    }
    return GenerateJob(**{**fields, **changes})


def done_of(client: Any, answer_id: str) -> DoneEvent:
    """The last event of an answer, whose token events have its ids and its text."""
    events = events_of(client, answer_id)
    done = events[-1]
    assert isinstance(done, DoneEvent), done
    written = [event for event in events if isinstance(event, TokenEvent)]
    assert [token for event in written for token in event.ids] == done.ids
    assert "".join(event.text for event in written) == done.text
    return done


def events_of(client: Any, answer_id: str) -> list[Any]:
    stream, after, events = AnswerStream(client, "default", answer_id), "0-0", []
    while not events or events[-1].type not in ("done", "error"):
        entries = stream.read(after, block_ms=20_000)
        assert entries, f"no event came after {events}"
        after = entries[-1][0]
        events += [event for _, event in entries]
    return events


def shown(client: Any, answer_id: str) -> list[str]:
    return [event.text for event in events_of(client, answer_id) if isinstance(event, TokenEvent)]


def test_a_second_answer_that_the_passages_state_takes_the_firsts_place(
    ask: Ask, stage: Stage, client: Any, tokens: Tokens
) -> None:
    done = ask()
    assert (done.text, done.finish_reason, stage.asked) == (PASSAGE, "stop", [False, True])
    assert done.support is not None
    assert done.support.support > 0.9
    assert done.support.sentences[0].source_end == len(PASSAGE)
    assert done.usage["completion_tokens"] == len(done.ids) == len(tokens.encode_content(PASSAGE).ids) + 1
    assert done.speculation["plain_equivalent_steps"] == len(done.ids) - 1
    assert shown(client, "a1") == [PASSAGE], "nothing of the first answer was shown"
    (turn,) = Sessions(client).turns("default", "s-a1")
    assert (turn.segments[-1].text, turn.segments[-1].ids) == (PASSAGE, done.ids[:-1])
    ((_, cost),) = Costs(client).by_day("default", 1)
    assert cost.counts.completion == len(done.ids) + len(tokens.encode_content(FIRST).ids) + 1, "both are paid for"


@pytest.mark.parametrize("second", ["Yes, it flies to the moon.", "It is bound for Mars.", ""])
def test_one_that_they_state_as_little_does_not(ask: Ask, stage: Stage, client: Any, second: str) -> None:
    stage.second = second
    done = ask()
    assert (done.text, stage.times) == (FIRST, 2)
    assert done.support is not None
    assert done.support.support < 0.5
    assert shown(client, "a1") == [FIRST]


@pytest.mark.parametrize(
    ("first", "pieces"),
    [
        (f"Yes, {PASSAGE[0].lower()}{PASSAGE[1:]}", 1),  # the passages state it
        ("It flies to the moon, as all know.", 3),  # it begins otherwise
        ("Yesterday it flew. " * 30, 9),  # it is long
    ],
)
def test_no_other_answer_gets_a_second_one(ask: Ask, stage: Stage, client: Any, first: str, pieces: int) -> None:
    stage.first = first
    done = ask(sampling=Sampling(max_tokens=1000, seed=1))
    assert (done.text, stage.asked) == (first, [False])
    texts = shown(client, "a1")
    assert len(texts) == 1 if pieces == 1 else len(texts) >= pieces
    assert pieces < 9 or len(done.ids) > MOST_HELD


def test_a_quotation_of_something_else_does_not(ask: Ask, stage: Stage) -> None:
    """The passage states it, but it has no word of the question."""
    stage.second = "It jumps over the lazy dog."
    done = ask()
    assert (done.text, stage.times) == (FIRST, 2)


def test_a_better_one_that_is_doubtful_itself_does_not(ask: Ask, stage: Stage) -> None:
    done = ask(checking={"doubtful_below": 1.5})
    assert (done.text, stage.times) == (FIRST, 2)


@pytest.mark.parametrize("change", [{"openings": []}, {"doubtful_below": 0.0}])
def test_without_openings_or_a_threshold_there_is_none(
    ask: Ask, stage: Stage, client: Any, change: dict[str, Any]
) -> None:
    assert (ask(checking=change).text, stage.times) == (FIRST, 1)
    assert len(shown(client, "a1")) > 1, "nothing is held back"


def test_without_stored_rows_the_prompt_is_read_again(ask: Ask, stage: Stage) -> None:
    stage.room = 0
    assert (ask().text, stage.times) == (PASSAGE, 2)


def test_where_answers_may_be_refused_the_second_one_is_judged_in_the_firsts_place(ask: Ask, stage: Stage) -> None:
    refusing = {"abstain": "refuse", "refusal": "The documents do not say."}
    done = ask(checking=refusing)
    assert (done.text, stage.times) == (PASSAGE, 2)
    stage.second = "It is bound for Mars."
    done = ask(checking=refusing)
    assert (done.text, stage.times) == ("The documents do not say.", 4)


def test_drafts_change_nothing(ask: Ask, stage: Stage) -> None:
    plain, drafted = (ask(speculation=Speculation(drafter=name)) for name in ("off", "auto"))
    assert (plain.text, plain.ids, plain.support) == (drafted.text, drafted.ids, drafted.support)
    assert stage.asked == [False, True] * 2


def test_cancelled_while_the_second_is_written_the_first_is_shown(ask: Ask, stage: Stage, queue: Queue) -> None:
    stage.second, stage.slow = "la " * 4000, True
    stage.before_second = lambda: queue.cancel("default", "a1")
    done = ask(sampling=Sampling(max_tokens=4000, seed=1))
    assert (done.finish_reason, done.text) == ("cancelled", FIRST)


def test_after_an_error_of_the_second_the_first_is_shown(ask: Ask, stage: Stage) -> None:
    def fail() -> None:
        raise RuntimeError("no memory")

    stage.before_second = fail
    done = ask()
    assert (done.text, done.finish_reason, stage.asked[:2]) == (FIRST, "stop", [False, True])
    assert done.support is not None


def test_an_answer_that_was_shown_stays(ask: Ask, stage: Stage, client: Any, tokens: Tokens) -> None:
    """Its worker died before it wrote the end."""
    ids = [*tokens.encode_content(PASSAGE).ids, min(tokens.eos_ids)]

    def begun(stream: AnswerStream) -> None:
        stream.start("s-a1")
        stream.write(TokenEvent(t=0, ids=ids, text=PASSAGE, sources=[None] * len(ids)))

    done = ask(before=begun)
    assert (done.text, done.ids, stage.times) == (PASSAGE, ids, 0)
