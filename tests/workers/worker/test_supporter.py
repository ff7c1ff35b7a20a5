"""The model's word on an answer, asked over the rows that the answer left."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from decoder import Engine, SamplingParams
from tests.support.tiny_models import tiny_target
from workers.answers.assembly import assemble
from workers.broker.messages import Checking, GenerateJob, Sampling, Segment
from workers.support.readout import Readout
from workers.tokens.tokenizer import Tokens
from workers.worker import supporter as supporter_module
from workers.worker.kv_store import KvStore, Owner
from workers.worker.runtime import Runtime
from workers.worker.supporter import Supporter

MINE = Owner("t", "s")
PASSAGE = "The quick brown fox jumps over the lazy dog. "


def job(**changes: Any) -> GenerateJob:
    checking = Checking(question="What jumps?", check=["Is ", None, " right?"], check_at=2)
    fields: dict[str, Any] = {
        "answer_id": "a",
        "session_id": "s",
        "question": "What jumps?",
        "segments": [
            Segment(kind="system", key="y", text="You are kind to foxes. "),
            Segment(kind="passage", key="p", text=PASSAGE),
            Segment(kind="question", key="q", text="What jumps?"),
            Segment(kind="template", key="t", text="<|im_end|>\n"),
        ],
        "passages": [{"title": "Foxes", "text": PASSAGE, "chunk_id": "c", "document_id": "d"}],
        "sampling": Sampling(max_tokens=8, seed=1),
        "checking": checking,
        "created": 0.0,
    }
    return GenerateJob(**{**fields, **changes})


@pytest.fixture
def runtime(tokens: Tokens) -> Iterator[Runtime]:
    opened = Runtime(Engine(tiny_target(vocab_size=tokens.vocab_size), "auto"), tokens, KvStore(64 * 2**20))
    yield opened
    opened.close(20)


def answered(runtime: Runtime, tokens: Tokens, made: GenerateJob) -> list[int]:
    """Decode the job's answer, which leaves its rows."""
    prompt = assemble(tokens, made.segments)[0]
    return [t for step in runtime.submit(prompt, SamplingParams(max_tokens=8), owner=MINE) for t in step.tokens]


def ids_of(tokens: Tokens) -> Any:
    return lambda segments: assemble(tokens, segments)[0]


def supported(runtime: Runtime, tokens: Tokens, made: GenerateJob, text: str = "The fox.", states: Any = None) -> Any:
    supporter = Supporter(tokens, "tiny", "float64")
    return supporter.support(made, text, ids_of(tokens), runtime, lambda: False, MINE, states or {})


def test_the_passages_are_not_read_again_and_the_answers_rows_stay(
    runtime: Runtime, tokens: Tokens, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = job()
    answered(runtime, tokens, made)
    before = runtime.store.state()
    handles: list[Any] = []
    submit = runtime.submit
    monkeypatch.setattr(runtime, "submit", lambda *a, **o: handles.append(submit(*a, **o)) or handles[-1])
    assert "check" in supported(runtime, tokens, made).signals
    (asked,) = handles
    shared = len(assemble(tokens, made.segments[:2])[0])
    assert asked.stats.cached_tokens >= shared
    after = runtime.store.state()
    assert (after["entries"], after["bytes"]) == (before["entries"], before["bytes"])


def test_what_the_model_is_asked_counts_as_cost(runtime: Runtime, tokens: Tokens) -> None:
    made = job()
    answered(runtime, tokens, made)
    asked: list[Any] = []
    supporter = Supporter(tokens, "tiny", "float64")
    supporter.support(made, "The fox.", ids_of(tokens), runtime, lambda: False, MINE, {}, asked=asked)
    (check,) = asked
    assert check.stats.tokens == 1
    assert check.stats.prompt_tokens > check.stats.cached_tokens > 0


def test_the_models_word_is_the_same_with_and_without_stored_rows(runtime: Runtime, tokens: Tokens) -> None:
    made = job()
    answered(runtime, tokens, made)
    stored = supported(runtime, tokens, made).signals["check"]
    check = Segment(kind="instruction", key="", text="Is The fox. right?")
    prompt = assemble(tokens, [*made.segments[:2], check, made.segments[-1]])[0]
    one = SamplingParams(max_tokens=1, logprobs=20)
    (step,) = list(runtime.submit(prompt, one))
    supporter = Supporter(tokens, "tiny", "float64")
    assert stored == pytest.approx(supporter._odds(dict(step.logprobs[0].top)), abs=1e-4)


def test_what_is_kept_does_not_decide_what_an_answer_is_worth(tokens: Tokens) -> None:
    """Rows are evicted, lost with another worker between an answer's last token and its support, or not kept at all."""
    found = []
    for room, rows in ((64 * 2**20, True), (64 * 2**20, False), (0, False)):
        runtime = Runtime(Engine(tiny_target(vocab_size=tokens.vocab_size), "auto"), tokens, KvStore(room))
        if rows:
            answered(runtime, tokens, job())
        found.append(supported(runtime, tokens, job()))
        runtime.close(20)
    assert "check" in found[0].signals
    assert found[0] == found[1] == found[2]


def test_an_error_of_the_engine_leaves_the_support_of_the_words(
    runtime: Runtime, tokens: Tokens, monkeypatch: pytest.MonkeyPatch
) -> None:
    def short(*_: Any, **__: Any) -> Any:
        raise MemoryError("no room")

    monkeypatch.setattr(runtime, "submit", short)
    support = supported(runtime, tokens, job())
    assert "check" not in support.signals
    assert support.calibrated is False
    assert support.signals["evidence"] > 0


@pytest.fixture
def readout(monkeypatch: pytest.MonkeyPatch) -> Readout:
    made = Readout(1, np.linspace(-1, 1, 32, dtype=np.float32), 0.25)
    monkeypatch.setattr(supporter_module, "shipped", lambda: {"tiny": made})
    return made


def test_a_model_with_a_readout_is_read_while_it_answers_and_not_asked(
    runtime: Runtime, tokens: Tokens, readout: Readout, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = job()
    layers = Supporter(tokens, "tiny", "float64").reads(made)
    prompt = assemble(tokens, made.segments)[0]
    handle = runtime.submit(prompt, SamplingParams(max_tokens=8), owner=MINE, read=layers)
    list(handle)
    handles: list[Any] = []
    monkeypatch.setattr(runtime, "submit", lambda *a, **o: handles.append(a))
    support = supported(runtime, tokens, made, states=handle.states)
    assert handles == []
    assert support.signals["readout"] == pytest.approx(readout.odds(handle.states[1].numpy()), abs=1e-4)
    assert "check" not in support.signals


def test_the_state_of_an_answer_that_another_worker_began_is_read_over_its_rows(
    runtime: Runtime, tokens: Tokens, readout: Readout, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = job()
    without_rows = supported(runtime, tokens, made).signals["readout"]
    prompt = assemble(tokens, made.segments)[0]
    whole = runtime.submit(prompt, SamplingParams(max_tokens=8), owner=MINE, read=frozenset({1}))
    list(whole)
    handles: list[Any] = []
    submit = runtime.submit
    monkeypatch.setattr(runtime, "submit", lambda *a, **o: handles.append(submit(*a, **o)) or handles[-1])
    read = supported(runtime, tokens, made).signals["readout"]
    assert handles[-1].stats.cached_tokens == len(prompt) - 1  # only its last token ran again
    assert read == pytest.approx(readout.odds(whole.states[1].numpy()), abs=1e-4)
    assert read == pytest.approx(without_rows, abs=1e-4)


def test_only_models_with_a_readout_are_read(tokens: Tokens, readout: Readout) -> None:
    assert Supporter(tokens, "tiny", "float64").reads(job()) == {1}
    assert Supporter(tokens, "other", "float64").reads(job()) == set()
    assert Supporter(tokens, "tiny", "float64").reads(job(checking=None)) == set()


def test_a_job_without_passages_has_no_support(runtime: Runtime, tokens: Tokens) -> None:
    assert supported(runtime, tokens, job(checking=None)) is None


def test_an_empty_answer_has_no_evidence(runtime: Runtime, tokens: Tokens) -> None:
    support = supported(runtime, tokens, job(), "")
    assert support.sentences == []
    assert support.signals["evidence"] == 0


def test_a_passage_that_is_not_in_the_prompt_supports_nothing(runtime: Runtime, tokens: Tokens) -> None:
    unread = [{**job().passages[0], "in_prompt": False}]
    assert supported(runtime, tokens, job(passages=unread)).signals["evidence"] == 0


def test_odds_take_a_missing_word_as_the_least_likely_one(tokens: Tokens) -> None:
    supporter = Supporter(tokens, "tiny", "float64")
    yes, no = (tokens.encode_content(word).ids[0] for word in ("Yes", "No"))
    assert supporter._odds({yes: -1.0, no: -3.0}) == pytest.approx(2.0)
    assert supporter._odds({yes: -1.0, yes + no + 1: -5.0}) == pytest.approx(4.0)


def test_support_is_the_same_with_and_without_speculation(tokens: Tokens) -> None:
    """In a session, whose next check begins on rows that passes over drafts wrote."""
    found = []
    for drafter in ("auto", "off"):
        runtime = Runtime(Engine(tiny_target(vocab_size=tokens.vocab_size), "auto"), tokens, KvStore(64 * 2**20))
        made = job()
        prompt = assemble(tokens, made.segments)[0]
        params = SamplingParams(max_tokens=40)
        ids = [t for s in runtime.submit(prompt, params, owner=MINE, drafter=drafter) for t in s.tokens]
        earlier = Segment(kind="answer", key="a", ids=ids)
        segments = [*made.segments, earlier, *made.segments[1:]]
        follow_up = job(segments=segments, checking=made.checking.model_copy(update={"check_at": 6}))
        prompt = assemble(tokens, segments)[0]
        list(runtime.submit(prompt, params, owner=MINE, drafter=drafter))
        found.append((ids, supported(runtime, tokens, follow_up)))
        runtime.close(20)
    assert found[0] == found[1]
    assert "check" in found[0][1].signals
