"""What a session takes in Redis: its texts once, whatever its length, through prompt, queue, worker and back."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rag_service.prompting.prompt import build
from rag_service.prompting.template import Templates
from tests.support.fake_workers import FakeEngine
from workers.broker import keys, wire
from workers.broker.app import make_app, make_redis
from workers.broker.embedded_redis import EmbeddedRedis
from workers.broker.messages import GenerateJob, PassagesEvent, Sampling, TurnRecord
from workers.sessions.queue import Queue
from workers.sessions.sessions import Sessions
from workers.sessions.streams import AnswerStream
from workers.tokens.tokenizer import Tokens
from workers.worker.generation import generate
from workers.worker.runtime import Runtime

TEMPLATE = Templates().of("Why does it jump?")
WINDOW = 131_072
TURNS = 40
MOST_OF_A_NAME = 40
"""Bytes by which a turn may take more than the one before it: the name of that one, which it repeats."""
MOST_OF_A_TOKEN = 14
"""Bytes, four of them of its id, where passages have 600 tokens of two characters."""


def passage(number: int, rank: int, words: int) -> dict[str, Any]:
    text = f" {number}: " + " ".join(f"The quick brown fox {number} jumps {word}." for word in range(words)) + "\n"
    return {
        "document_id": f"d{number}",
        "chunk_id": f"d{number}:0",
        "title": f"Title {number}",
        "heading": None,
        "text": text,
        "rank": rank,
        "score": 0.5,
    }


class Talk:
    """A session that is talked to, turn after turn."""

    def __init__(self, client: Any, queue: Queue, runtime: Runtime, tokens: Tokens) -> None:
        self.client, self._queue, self._runtime, self._tokens = client, queue, runtime, tokens
        self.turns = 0
        self.prompt_tokens = 0

    def ask(self, passages: list[dict[str, Any]]) -> GenerateJob:
        turns = Sessions(self.client).turns("default", "s", self._tokens.hash)
        assert len(turns) == self.turns
        built = build(
            "Why does it jump?", passages, turns, self._tokens, window=WINDOW, max_tokens=50, template=TEMPLATE
        )
        job = GenerateJob(
            answer_id=f"a{self.turns}",
            session_id="s",
            question="Why does it jump?",
            segments=built.segments,
            new_from=built.new_from,
            turn=self.turns,
            passages=built.passages,
            sampling=Sampling(seed=1, max_tokens=50),
            forgotten=built.turns_without_passages,
            gone=built.dropped_turns,
            created=time.time(),
        )
        self._queue.enqueue_generate(job)
        assert generate(job, AnswerStream(self.client, "default", job.answer_id), self._runtime, self._tokens)
        self.turns += 1
        self.prompt_tokens = built.tokens
        return job

    def bytes(self) -> int:
        """What everything of the tenant takes: its texts, and four bytes a token."""
        ids = self.client.strlen(keys.session_ids("default", "s"))
        return len(_dumped(self.client).encode()) + int(ids)


@pytest.fixture
def talk(tmp_path: Path, tokens: Tokens) -> Iterator[Talk]:
    with EmbeddedRedis(tmp_path) as server:  # one that no worker listens to
        client = make_redis(server.url)
        app = make_app(server.url)
        runtime = Runtime(FakeEngine(tokens, window=WINDOW), tokens)
        yield Talk(client, Queue(app, client), runtime, tokens)
        runtime.close()
        app.close()
    client.close()


def test_a_turn_takes_as_much_as_the_one_before(talk: Talk) -> None:
    """The same passages are found again and again."""
    found = [passage(number, number, words=60) for number in range(1, 6)]
    taken = [0]
    for _ in range(TURNS):
        talk.ask(found)
        taken.append(talk.bytes())
    grown = [after - before for before, after in itertools.pairwise(taken)]
    text = sum(len(one["text"]) for one in found)
    assert max(grown[1:]) < text, "no turn but the first writes the passages"
    early, late = sum(grown[1:11]), sum(grown[-10:])
    assert late - early < 10 * (TURNS - 11) * MOST_OF_A_NAME


def test_forty_turns_of_a_long_window_take_little_more_than_their_text(talk: Talk) -> None:
    """Each finds other passages, until the window is full."""
    for turn in range(TURNS):
        found = [passage(5 * turn + rank, rank, words=36) for rank in range(1, 6)]
        talk.ask(found)
    assert talk.prompt_tokens > 100_000
    assert talk.bytes() < MOST_OF_A_TOKEN * talk.prompt_tokens


def test_what_is_read_is_what_was_written(talk: Talk) -> None:
    """Jobs, turns and passages come back as they were, and one text stands in Redis once."""
    found = [passage(number, number, words=20) for number in range(1, 4)]
    jobs = [talk.ask(found), talk.ask(found[::-1]), talk.ask([passage(4, 7, words=20)])]
    for job in jobs:
        stream = AnswerStream(talk.client, "default", job.answer_id)
        record = stream.record()
        assert record is not None
        assert record["job"] == job
        assert stream.read()[0][1] == PassagesEvent(passages=job.passages)
    turns = Sessions(talk.client).turns("default", "s", None)
    assert [turn.passages for turn in turns] == [job.passages for job in jobs]
    assert [turn.segments[:-1] for turn in turns] == [job.segments[job.new_from :] for job in jobs]
    assert _dumped(talk.client).count("fox 2 jumps 7.") == 1


@pytest.mark.parametrize("gone", ["session", "texts"])
def test_nothing_is_left_of_an_erased_session(talk: Talk, gone: str) -> None:
    job = talk.ask([passage(1, 1, words=20)])
    sessions, stream = Sessions(talk.client), AnswerStream(talk.client, "default", job.answer_id)
    texts = keys.session_texts("default", "s")
    assert talk.client.ttl(texts) >= talk.client.ttl(keys.session_turns("default", "s"))
    before = sessions.memory("default", "s")["turns_bytes"]
    assert before > talk.client.memory_usage(texts, samples=0)
    if gone == "session":
        assert sessions.erase("default", "s")
        assert "fox" not in _dumped(talk.client)
    else:  # an erasure between two reads
        talk.client.delete(texts)
    assert stream.record() is None
    assert sessions.turns("default", "s") == []


def test_what_an_earlier_version_wrote_is_read(talk: Talk) -> None:
    """Turns and jobs stood whole in their records, and the passages in the event."""
    job = talk.ask([passage(1, 1, words=20)])
    (turn,) = Sessions(talk.client).turns("default", "s")
    talk.client.delete(keys.session_texts("default", "s"), keys.answer_events("default", "a0"))
    talk.client.lset(keys.session_turns("default", "s"), 0, wire.dumps(turn))
    talk.client.hset(keys.answer("default", "a0"), "request", wire.dumps(job))
    talk.client.xadd(keys.answer_events("default", "a0"), {"event": wire.dumps(PassagesEvent(passages=job.passages))})
    stream = AnswerStream(talk.client, "default", "a0")
    record = stream.record()
    assert record is not None
    assert record["job"] == job
    assert [event for _, event in stream.read()] == [PassagesEvent(passages=job.passages)]
    (read,) = Sessions(talk.client).turns("default", "s")
    assert read == TurnRecord.model_validate(turn.model_dump())
    talk.ask([passage(1, 1, words=20)])
    assert len(Sessions(talk.client).turns("default", "s")) == 2, "the session goes on"


def _dumped(client: Any) -> str:
    """All values in Redis."""
    found: list[str] = []
    for name in client.keys("rag:default:*"):
        kind = client.type(name)
        if kind == "hash":
            found += client.hgetall(name).values()
        elif kind == "list":
            found += client.lrange(name, 0, -1)
        elif kind == "stream":
            found += [fields["event"] for _, fields in client.xrange(name)]
    return "\n".join(found)
