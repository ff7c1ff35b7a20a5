"""The store of earlier answers: what fits, whose it is, and what erasing takes out of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.support.fake_workers import FakeEngine, make_worker_context, save_tokenizer, speak
from workers.broker.messages import GenerateJob, Sampling, Segment
from workers.sessions.answer_store import AnswerStore, erase_answers, erase_collection, store_name
from workers.sessions.queue import Queue
from workers.sessions.sessions import Sessions
from workers.tokens.tokenizer import Tokens
from workers.worker.tasks import run_generate

C = store_name("c", "tokenizer")


def names(store: AnswerStore, name: str = C, tenant: str = "t") -> list[str]:
    return [answer_id for answer_id, _ in store.read(tenant, name)]


def test_the_latest_answers_that_fit_are_kept_the_others_are_dropped_for_good(client: Any) -> None:
    store = AnswerStore(client, 10, 60)
    for number in range(5):
        store.add("t", C, f"a{number}", [number] * 4)
    assert store.read("t", C) == [("a4", [4] * 4), ("a3", [3] * 4)]
    assert names(AnswerStore(client, 1000, 60)) == ["a4", "a3"]
    assert 0 < client.ttl("rag:t:store:tokenizer:c") <= 60


def test_tenants_collections_and_tokenizers_have_stores_of_their_own(client: Any) -> None:
    store = AnswerStore(client, 100, 60)
    store.add("t", C, "a", [1])
    store.add("u", C, "b", [1])
    store.add("t", store_name("d", "tokenizer"), "c", [1])
    store.add("t", store_name("c", "another"), "e", [1])
    store.add("t", store_name(None, "tokenizer"), "f", [1])
    store.add("t", store_name("b,c", "tokenizer"), "g", [1])
    store.add("t", store_name("b,cc", "tokenizer"), "h", [1])
    assert names(store) == ["a"]
    erase_collection(client, "t", "c")
    assert names(store) == names(store, store_name("c", "another")) == []
    assert names(store, store_name("b,c", "tokenizer")) == [], "what is kept of several goes with each of them"
    assert names(store, store_name("b,cc", "tokenizer")) == ["h"]
    assert names(store, tenant="u") == ["b"]
    assert names(store, store_name("d", "tokenizer")) == ["c"]
    assert names(store, store_name(None, "tokenizer")) == ["f"]


def test_erased_answers_leave_every_store(client: Any) -> None:
    store = AnswerStore(client, 100, 60)
    for name in (C, store_name("d", "tokenizer")):
        store.add("t", name, "gone", [1, 2])
        store.add("t", name, "stays", [3])
    erase_answers(client, "t", ["gone"])
    assert names(store) == names(store, store_name("d", "tokenizer")) == ["stays"]


def test_a_store_of_no_tokens_keeps_and_reads_nothing(client: Any) -> None:
    AnswerStore(client, 0, 60).add("t", C, "a", [1])
    assert not client.keys("*")
    AnswerStore(client, 10, 60).add("t", C, "a", [1])
    assert AnswerStore(client, 0, 60).read("t", C) == []


def test_answers_are_kept_and_copied_from_only_where_a_store_is_asked_for(
    redis_url: str, queue: Queue, client: Any, tmp_path: Path
) -> None:
    """Erasing a session takes its answers out."""
    tokens = Tokens.load(save_tokenizer(tmp_path))
    seen: list[list[str]] = []

    def note(sequence: Any) -> None:
        if not sequence.tokens:
            seen.append([corpus.key for corpus in sequence.corpora])

    engine = FakeEngine(tokens, speak(tokens, "The fox jumps over it."), before_step=note)
    place = make_worker_context(redis_url, tokens, engine)
    kept = AnswerStore(client, 100, 60)
    try:
        for answer_id, store in (("a1", None), ("a2", kept), ("a3", None), ("a4", kept)):
            place.store = store
            queue.enqueue_generate(
                GenerateJob(
                    answer_id=answer_id,
                    session_id=answer_id,
                    collection="c",
                    question="what?",
                    segments=[Segment(kind="question", key="q", text="what?")],
                    sampling=Sampling(seed=1),
                    created=0.0,
                )
            )
            run_generate(place, "default", answer_id)
    finally:
        place.close()
    assert seen == [[], [], [], ["a2"]]
    name = store_name("c", tokens.hash)
    assert names(kept, name, "default") == ["a4", "a2"]
    assert Sessions(client).erase("default", "a2")
    assert names(kept, name, "default") == ["a4"]
