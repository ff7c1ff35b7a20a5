"""Passages are tokenized once a tenant: read by other workers, bounded, and forgotten where documents are deleted."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from decoder import Engine
from tests.support.fake_workers import make_worker_context, running_worker
from tests.support.tiny_models import tiny_target
from workers.broker import keys
from workers.broker.app import make_redis
from workers.broker.messages import GenerateJob, Sampling, Segment
from workers.sessions import passage_ids
from workers.sessions.passage_ids import PassageIds, forget_passages
from workers.sessions.queue import Queue
from workers.sessions.streams import AnswerStream
from workers.tokens.tokenizer import Tokens

FOX, DOG = "The quick brown fox jumps. 東京 😀", "Over the lazy dog. <|im_end|>"


class Counted:
    """A tokenizer that counts what it is asked."""

    def __init__(self, tokens: Tokens) -> None:
        self._tokens = tokens
        self.hash = tokens.hash
        self.asked: list[str] = []

    def encode_content(self, text: str) -> Any:
        self.asked.append(text)
        return self._tokens.encode_content(text)


@pytest.fixture
def worker(client: Any, tokens: Tokens) -> Callable[..., tuple[PassageIds, list[str]]]:
    """A worker's view of the passages, and the texts that it tokenized."""

    def make(hash: str = tokens.hash, **options: Any) -> tuple[PassageIds, list[str]]:
        counted = Counted(tokens)
        counted.hash = hash
        return PassageIds(client, counted, **options), counted.asked

    return make


def test_one_worker_tokenizes_for_all(worker: Any, tokens: Tokens) -> None:
    expected = {text: tokens.encode_content(text).ids for text in (FOX, DOG)}
    first, asked = worker()
    assert first.of("t", [FOX, DOG, FOX]) == expected
    assert first.of("t", [FOX, DOG]) == expected
    assert asked == [FOX, DOG]
    second, asked = worker()
    assert second.of("t", [DOG, FOX]) == expected
    assert asked == []


@pytest.mark.parametrize(("tenant", "hash"), [("other", None), ("t", "of another tokenizer")])
def test_tenants_and_tokenizers_share_nothing(worker: Any, tenant: str, hash: str | None) -> None:
    worker()[0].of("t", [FOX])
    second, asked = worker(hash) if hash else worker()
    second.of(tenant, [FOX])
    assert asked == [FOX]


def test_what_is_at_hand_needs_no_redis(worker: Any, client: Any) -> None:
    first, asked = worker()
    first.of("t", [FOX])
    client.flushall()
    first.of("t", [FOX])
    assert asked == [FOX]
    assert client.keys("*") == []


def test_the_oldest_leave(worker: Any, client: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    texts = [f"Passage {number}." for number in range(5)]
    first, asked = worker(most_passages=3)
    for text in texts:
        first.of("t", [text])
    assert client.hlen(keys.passage_ids("t")) == client.zcard(keys.passage_order("t")) == 3
    assert all(0 < client.ttl(key) <= passage_ids.TTL_S for key in (keys.passage_ids("t"), keys.passage_order("t")))
    second, asked = worker(most_passages=3)
    second.of("t", texts[2:])
    assert asked == []
    second.of("t", texts[:1])
    assert asked == texts[:1]
    monkeypatch.setattr(passage_ids, "MOST_TOKENS", 1)
    third, asked = worker()
    third.of("t", [FOX])
    third.of("t", [DOG])
    client.flushall()
    third.of("t", [DOG])
    third.of("t", [FOX])
    assert asked == [FOX, DOG, FOX], "in the process, too"


def test_nothing_is_left_of_deleted_documents(worker: Any, client: Any) -> None:
    worker()[0].of("t", [FOX])
    worker()[0].of("other", [FOX])
    forget_passages(client, "t")
    assert [key for key in client.keys("*") if key.startswith("rag:t:")] == []
    assert client.exists(keys.passage_ids("other"))


def test_without_redis_passages_are_tokenized(dead_url: str, tokens: Tokens, client: Any) -> None:
    away = make_redis(dead_url)
    for redis in (away, None):
        assert PassageIds(redis, tokens).of("t", [FOX]) == {FOX: tokens.encode_content(FOX).ids}
    away.close()


def test_damaged_ids_are_made_anew(worker: Any, client: Any, tokens: Tokens) -> None:
    worker()[0].of("t", [FOX])
    (name,) = client.hkeys(keys.passage_ids("t"))
    client.hset(keys.passage_ids("t"), name, b"\1\2\3")
    second, asked = worker()
    assert second.of("t", [FOX]) == {FOX: tokens.encode_content(FOX).ids}
    assert asked == [FOX]


def test_workers_answer_from_them(queue: Queue, client: Any, redis_url: str, tokens: Tokens) -> None:
    """Passages in the prompt and those that had no room; the second worker answers the same."""

    def ask(answer_id: str) -> list[int]:
        job = GenerateJob(
            answer_id=answer_id,
            session_id="",
            question="?",
            segments=[Segment(kind="passage", key="p", text=FOX), Segment(kind="question", key="q", text="Who?")],
            passages=[{"text": DOG, "chunk_id": "c", "in_prompt": False}],
            sampling=Sampling(max_tokens=8, seed=1),
            created=0.0,
        )
        place = make_worker_context(redis_url, tokens, Engine(tiny_target(vocab_size=tokens.vocab_size), "auto"))
        with running_worker(redis_url, place):
            queue.enqueue_generate(job)
            stream = AnswerStream(client, "default", answer_id)
            while (record := stream.record()) is None or record["status"] in ("queued", "running"):
                pass
            assert record["result"] is not None, record["error"]
            whole = [*tokens.encode_content(FOX).ids, *tokens.encode_content("Who?").ids]
            assert record["result"].usage["prompt_tokens"] == len(whole)
            return record["result"].ids

    first = ask("a1")
    assert client.hlen(keys.passage_ids("default")) == 2
    assert ask("a2") == first
