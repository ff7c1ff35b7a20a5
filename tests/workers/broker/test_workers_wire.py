"""Messages between processes of two versions: what an older one must be able to read."""

from __future__ import annotations

import json

import pytest
from pydantic import ValidationError

from workers.broker import wire
from workers.broker.messages import DoneEvent, GenerateJob, Sampling, Segment, TokenEvent, TokenOrigin

JOB = GenerateJob(
    answer_id="a1",
    tenant="default",
    session_id="s",
    question="What jumps?",
    created=12.5,
    segments=[Segment(kind="question", key="q", text="What jumps?")],
    sampling=Sampling(seed=1, top_k=5),
)


def test_a_job_comes_back_as_it_was() -> None:
    assert wire.loads(GenerateJob, wire.dumps(JOB)) == JOB


def test_a_field_at_its_default_does_not_travel() -> None:
    """So a new field reaches no older worker until someone uses it."""
    sent = json.loads(wire.dumps(JOB))
    assert "answer_id" in sent
    at_default = [
        name
        for name, field in GenerateJob.model_fields.items()
        if not field.is_required() and name in sent and sent[name] == field.get_default(call_default_factory=True)
    ]
    assert at_default == []


def test_a_job_with_an_unknown_field_is_refused() -> None:
    """An older worker would otherwise answer without it."""
    with pytest.raises(ValidationError):
        wire.loads(GenerateJob, json.dumps({**json.loads(wire.dumps(JOB)), "newer": 1}))


def test_an_event_keeps_its_type_and_loses_unknown_fields() -> None:
    event = TokenEvent(t=0, ids=[4], text="a", sources=[TokenOrigin(drafter="pld")])
    sent = json.loads(wire.dumps(event))
    sent["newer"] = 1
    sent["sources"][0]["newer"] = 1
    assert wire.load_event(json.dumps(sent)) == event
    assert wire.load_event(json.dumps({"type": "newer"})) is None


def test_figures_that_are_no_json_numbers_survive() -> None:
    event = DoneEvent(
        text="a", ids=[4], finish_reason="stop", usage={}, speculation={"mat": float("inf")}, timings={"total": 1.5}
    )
    assert wire.load_event(wire.dumps(event)) == event
