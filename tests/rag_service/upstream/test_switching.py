"""A deployment that turns from our own engine to a model server and back: collections, sessions and clients go on."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from rag_service.client import Done, RagClient
from rag_service.client.events import Token
from retriever import Library
from tests.rag_service.conftest import FOXES, MODEL, WINDOW, World, make_settings, serving, upstream_settings
from tests.support.fake_workers import FakeEngine, make_worker_context, running_worker
from tests.support.hash_embedder import HashEmbedder
from tests.support.peers.scripted_upstream import scripted
from workers.broker import keys
from workers.broker.app import make_redis
from workers.broker.embedded_redis import EmbeddedRedis
from workers.tokens.own_tokens import own_tokens
from workers.tokens.tokenizer import Tokens
from workers.upstream.runtime import UpstreamRuntime

COPIED = "The quick brown fox jumps over the lazy dog every morning before breakfast."
EDITED = "Every day: The quick brown fox jumps over the lazy dog every morning before breakfast."

Deploy = Callable[[str], contextlib.AbstractContextManager[str]]


@pytest.fixture
def deploy(tmp_path: Path, data_dir: Path, tokens: Tokens) -> Iterator[Deploy]:
    """`with deploy("decoder") as url`: an API and a worker of that engine, over the same Redis and documents."""

    @contextlib.contextmanager
    def deployed(engine: str) -> Iterator[str]:
        with contextlib.ExitStack() as stack:
            settings: dict[str, Any] = {}
            own = own_tokens() if engine == "upstream" else tokens
            runs: Any
            if engine == "upstream":
                server = stack.enter_context(scripted(lambda asked: [EDITED[:12], EDITED[12:30], EDITED[30:]]))
                settings = upstream_settings(server.url, WINDOW)
                runs = UpstreamRuntime(make_settings(data_dir, **settings).endpoints)
            else:
                runs = FakeEngine(own, lambda prompt: own.encode_content(COPIED).ids, window=WINDOW)
            library = Library(data_dir, HashEmbedder())
            place = make_worker_context(redis.url, own, runs, library, data_dir / "uploads", name=engine)
            stack.enter_context(running_worker(redis.url, place, info={"model": MODEL, "tokenizer": own.hash}))
            client = make_redis(redis.url)
            stack.callback(client.close)
            while client.zscore(keys.WORKERS, engine) is None:
                time.sleep(0.01)
            world: Any = World(redis.url, data_dir, own, None, place, settings=settings)  # type: ignore[arg-type]
            yield stack.enter_context(serving(world))
            client.delete(keys.WORKERS)

    with EmbeddedRedis(tmp_path / "redis") as redis:
        yield deployed


def equal(answer: Any) -> list[str]:
    """The texts of copied citations, which the document must have where they say."""
    copied = [one for one in answer.citations or () if one.kind == "copied"]
    for one in copied:
        assert answer.answer[one.answer_start : one.answer_end] == FOXES[one.source_start : one.source_end]
    return [answer.answer[one.answer_start : one.answer_end] for one in copied]


def test_sessions_answers_and_edits_go_on_after_a_switch_and_back(deploy: Deploy) -> None:
    asked: dict[str, Any] = {"collection": "animals"}
    with deploy("decoder") as url, RagClient(url, api_key="") as rag:
        first = rag.query("What does the fox jump over?", **asked)
        assert (first.answer, equal(first)) == (COPIED, [COPIED])
        events = list(rag.resume(first.answer_id))
    with deploy("upstream") as url, RagClient(url, api_key="") as rag:
        again = rag.answer(first.answer_id)
        assert (again.answer, equal(again)) == (first.answer, [COPIED])
        replayed = list(rag.resume(first.answer_id))
        assert [type(one) for one in replayed] == [type(one) for one in events]
        assert "".join(one.text for one in replayed if isinstance(one, Token)) == COPIED
        for span in spans_of(url, first.answer_id):
            assert COPIED[span["answer_start"] : span["answer_end"]] == FOXES[span["source_start"] : span["source_end"]]
        second = rag.query("And when?", session_id=first.session_id)
        assert (second.turn, second.answer, second.speculation["engine"]) == (2, EDITED, "upstream")  # type: ignore[index]
        assert COPIED in equal(second)
        edited = rag.edit(first.answer_id, "Say how often first.")
        assert (edited.base, edited.version, edited.answer) == (first.answer_id, 2, EDITED)
        assert [turn.answer_id for turn in rag.session(first.session_id).turns][:2] == [
            first.answer_id,
            second.answer_id,
        ]
    with deploy("decoder") as url, RagClient(url, api_key="") as rag:
        assert (rag.answer(second.answer_id).answer, equal(rag.answer(second.answer_id))) == (EDITED, equal(second))
        assert any(isinstance(one, Done) for one in rag.resume(second.answer_id))
        third = rag.query("And where?", session_id=first.session_id)
        assert (third.turn, third.answer) == (4, COPIED)
        assert third.speculation["drafter"]  # type: ignore[index]
        assert {one.name for one in rag.collections()} >= {"animals"}


def spans_of(url: str, answer_id: str) -> list[dict[str, Any]]:
    text = httpx.get(f"{url}/v1/answers/{answer_id}/events").text
    data = [line[6:] for line in text.splitlines() if line.startswith("data: ")]
    spans = [span for one in map(json.loads, data) for span in one.get("spans", ())]
    assert spans
    return spans
