"""Texts of a session: kept once by content, put back as they were, gone with what they were written for."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.support.finished_turns import append_turn
from workers.broker import keys
from workers.broker.messages import GenerateJob, Sampling, Segment, TurnRecord
from workers.sessions.queue import Queue, QueueUnavailable
from workers.sessions.record_texts import LEAST, read_job, stored
from workers.sessions.sessions import Sessions
from workers.sessions.streams import AnswerStream

LONG = "The quick brown fox. " * 8
ODD = "\ud800 \U0001f98a é\x00" * LEAST
TEXTS = ["", "short", "x" * LEAST, LONG, f"\n\t{LONG}\n", " " * LEAST, ODD, LONG[:60] + '{"kept":"x"}']


def make_job(text: str) -> GenerateJob:
    segments = [
        Segment(kind="system", key="s", text=LONG),
        Segment(kind="question", key="q1", text=text),
        Segment(kind="answer", key="a0", text=LONG, ids=[1, 2]),
        Segment(kind="edited", key="a0", text=LONG, ids=[1, 2]),
        Segment(kind="passage", key="p", text=f"[Title]\n{text.strip()}\n\n", document_id="d", chunk_id="d:0"),
        Segment(kind="question", key="q2", text=LONG),
    ]
    passages: list[dict[str, Any]] = [
        {"chunk_id": "d:0", "text": text, "rank": 1, "in_prompt": True},
        {"chunk_id": "d:1", "text": text, "rank": 7},
        {"text": text},
        {"chunk_id": "d:2"},
    ]
    return GenerateJob(
        answer_id="a1",
        session_id="s",
        question="why?",
        segments=segments,
        passages=passages,
        sampling=Sampling(seed=7),
        json_schema={"kept": "x", "text": {"kept": "x"}},
        created=1.0,
    )


@pytest.mark.parametrize("text", TEXTS)
def test_records_come_back_as_they_were(client: Any, queue: Queue, text: str) -> None:
    job = make_job(text)
    queue.enqueue_generate(job)
    record = AnswerStream(client, "default", "a1").record()
    assert record is not None
    assert record["job"] == job
    answer = Segment(kind="answer", key="a1", text=text, ids=[3])
    turn = TurnRecord(
        answer_id="a1", question="why?", segments=[*job.segments[3:], answer], passages=job.passages, created=1.0
    )
    sessions = Sessions(client)
    append_turn(client, "default", "s", turn)
    assert sessions.turns("default", "s") == [turn]
    assert [one["question"] for one in sessions.list("default")] == ["why?"]


def test_an_answer_without_a_session_is_stored_whole(client: Any) -> None:
    job = make_job(LONG).model_copy(update={"session_id": ""})
    text, texts = stored(job, whole=True)
    assert texts == {}
    assert json.loads(text)["segments"][0]["text"] == LONG
    assert read_job(client, "default", text) == job


def test_what_is_not_enqueued_leaves_no_texts(client: Any, queue: Queue, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise OSError("no way to the broker")

    with monkeypatch.context() as patched:
        patched.setattr(queue._app, "send_task", refuse)
        with pytest.raises(QueueUnavailable):
            queue.enqueue_generate(make_job(LONG))
    assert client.keys("rag:default:*") == []
    queue.enqueue_generate(make_job(LONG))
    assert client.exists(keys.session_texts("default", "s"))
