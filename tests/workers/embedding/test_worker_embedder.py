"""A worker embeds texts for a process that has no model."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from retriever import EmbedderUnavailable, SentenceTransformerEmbedder
from retriever.embedding.embedder import ShowsKnown, ShowsTokens, Vectors, dtype_of, known_share
from tests.support.models.tiny_encoders import tiny_embedder
from workers.broker import keys
from workers.broker.app import make_redis
from workers.embedding import embedding_server
from workers.embedding.embedding_server import EmbeddingServer
from workers.embedding.requests import EmbedReply, EmbedRequest, digest
from workers.embedding.worker_embedder import BATCH, TRIES, WorkerEmbedder
from workers.errors import QueueUnavailable
from workers.worker import main

TEXTS = ["one two three", "", "zwölf three Äpfel", "x" * 500]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> SentenceTransformerEmbedder:
    return SentenceTransformerEmbedder(tiny_embedder(tmp_path_factory.mktemp("embedder")))


@pytest.fixture
def client(redis_url: str) -> Iterator[Any]:
    with closing(make_redis(redis_url)) as client:
        client.flushall()
        yield client


def listed(client: Any, embedder: str, name: str = "w") -> None:
    client.zadd(keys.WORKERS, {name: client.time()[0]})
    client.hset(keys.WORKER_INFO, name, json.dumps({"embedder": embedder}))


@contextmanager
def serving(client: Any, embedder: Any) -> Iterator[None]:
    listed(client, embedder.name)
    server = EmbeddingServer(client, embedder)
    server.start()
    try:
        yield
    finally:
        server.stop()


def test_vectors_are_those_of_the_model(redis_url: str, client: Any, model: SentenceTransformerEmbedder) -> None:
    asking = WorkerEmbedder(SentenceTransformerEmbedder(model.folder), redis_url)
    assert (asking.name, asking.dimension, dtype_of(asking)) == (model.name, model.dimension, "float32")
    with serving(client, model):
        for text in TEXTS:
            assert np.array_equal(asking.embed_query(text), model.embed_query(text))
            assert known_share(asking, text) == model.known(text)
        many = TEXTS * (BATCH // 3)
        np.testing.assert_allclose(asking.embed_documents(many), model.embed_documents(many), atol=1e-6)
        assert asking.embed_documents([]).shape == (0, model.dimension)
    assert isinstance(asking, ShowsKnown)
    assert not isinstance(asking, ShowsTokens)
    assert [key for key in client.keys("rag:embedding:*") if client.ttl(key) < 0] == []


def test_how_much_is_known_is_asked_once(redis_url: str, client: Any, model: SentenceTransformerEmbedder) -> None:
    asking = WorkerEmbedder(model, redis_url)
    with serving(client, model):
        asking.embed_query("one two")
    assert asking.known("one two") == model.known("one two")  # nobody serves any more


def test_many_ask_at_once(redis_url: str, client: Any, model: SentenceTransformerEmbedder) -> None:
    asking = WorkerEmbedder(model, redis_url)
    texts = [f"{word} three" for word in ("one", "two", "four", "five") for _ in range(4)]
    found: dict[int, Vectors] = {}
    with serving(client, model), serving(client, model):
        threads = [
            threading.Thread(target=lambda n=n, text=text: found.__setitem__(n, asking.embed_query(text)))
            for n, text in enumerate(texts)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    for number, text in enumerate(texts):
        assert np.array_equal(found[number], model.embed_query(text))


@pytest.mark.parametrize("embedder", [None, "another-model"])
def test_without_a_worker_of_this_model_it_says_so_at_once(
    redis_url: str, client: Any, model: SentenceTransformerEmbedder, embedder: str | None
) -> None:
    if embedder is not None:
        listed(client, embedder)
    asking = WorkerEmbedder(model, redis_url)
    with pytest.raises(EmbedderUnavailable, match=rf"no worker that embeds with {model.name} is running; start one"):
        asking.embed_query("one")
    assert client.keys("rag:embedding:*") == []


def test_a_worker_that_dies_over_a_request_is_replaced(
    redis_url: str, client: Any, model: SentenceTransformerEmbedder
) -> None:
    """The first take of the request leads nowhere; it is sent again."""
    asking = WorkerEmbedder(model, redis_url, patience_s=0.2)
    listed(client, model.name)
    found: list[Vectors] = []
    thread = threading.Thread(target=lambda: found.append(asking.embed_query("one two")))
    thread.start()
    taken = client.blpop([keys.embed_queue(digest(model.name))], timeout=0.9)
    assert client.getdel(keys.embed_request(taken[1]))
    with serving(client, model):
        thread.join()
    assert np.array_equal(found[0], model.embed_query("one two"))


def test_passages_come_in_pieces_that_a_question_can_wait_for(
    redis_url: str, client: Any, model: SentenceTransformerEmbedder
) -> None:
    sizes: list[int] = []

    class Noting:
        name, dimension = model.name, model.dimension

        def embed_query(self, text: str, /) -> Vectors:
            return model.embed_query(text)

        def embed_documents(self, texts: Sequence[str], /) -> Vectors:
            sizes.append(len(texts))
            return model.embed_documents(texts)

    with serving(client, Noting()):
        found = WorkerEmbedder(model, redis_url).embed_documents(["one two"] * (2 * BATCH + 3))
    assert found.shape == (2 * BATCH + 3, model.dimension)
    assert sizes == [BATCH, BATCH, 3]


def test_nobody_embeds_what_nobody_waits_for(redis_url: str, client: Any, model: SentenceTransformerEmbedder) -> None:
    asking = WorkerEmbedder(model, redis_url, patience_s=0.05)
    listed(client, model.name)
    with pytest.raises(EmbedderUnavailable, match="try again, or start more workers"):
        asking.embed_query("one")
    queue = keys.embed_queue(digest(model.name))
    client.persist(queue)  # on a busy machine it would expire before the server looks, if it has not yet
    for _ in range(TRIES - client.llen(queue)):
        client.rpush(queue, "gone")
    embedded: list[str] = []

    class Noting:
        name, dimension = model.name, model.dimension

        def embed_query(self, text: str, /) -> Vectors:
            embedded.append(text)
            return model.embed_query(text)

        def embed_documents(self, texts: Sequence[str], /) -> Vectors:
            return model.embed_documents(texts)

    client.rpush(queue, "last")
    client.set(keys.embed_request("last"), EmbedRequest("query", ["two"]).dumps())
    with serving(client, Noting()):
        replies = (client.blpop([keys.embed_reply("last")], timeout=0.9) for _ in range(60))  # a busy machine is slow
        assert EmbedReply.loads(next(filter(None, replies))[1]).vectors is not None
    assert embedded == ["two"]


def test_what_goes_wrong_in_a_worker_is_said(redis_url: str, client: Any, model: SentenceTransformerEmbedder) -> None:
    errors: list[Callable[[], Exception]] = [lambda: EmbedderUnavailable("no weights"), lambda: RuntimeError("secret")]

    class Broken:
        name, dimension = model.name, model.dimension

        def embed_query(self, text: str, /) -> Vectors:
            raise errors[int(text)]()

        def embed_documents(self, texts: Sequence[str], /) -> Vectors:
            raise errors[int(texts[0])]()

    asking = WorkerEmbedder(model, redis_url)
    with serving(client, Broken()):
        with pytest.raises(EmbedderUnavailable, match="could not embed this: no weights"):
            asking.embed_query("0")
        with pytest.raises(EmbedderUnavailable, match="could not embed this: RuntimeError; the worker's log"):
            asking.embed_documents(["1"])
        client.set(keys.embed_request("bad"), "{}")
        client.rpush(keys.embed_queue(digest(model.name)), "bad")
        assert EmbedReply.loads(client.blpop([keys.embed_reply("bad")], timeout=0.9)[1]).error.startswith("KeyError")


def test_without_redis_it_says_so(model: SentenceTransformerEmbedder, tmp_path: Path) -> None:
    with pytest.raises(QueueUnavailable):
        WorkerEmbedder(model, f"unix://{tmp_path}/none.sock").embed_query("one")


def test_a_process_without_torch_can_ask(
    redis_url: str, client: Any, model: SentenceTransformerEmbedder, tmp_path: Path
) -> None:
    """As the API in its own image: whatever imports torch there fails."""
    (tmp_path / "sitecustomize.py").write_text(
        "import sys\n"
        "sys.modules.update(dict.fromkeys(('torch', 'transformers', 'sentence_transformers', 'scipy', 'sklearn')))\n"
    )
    script = (
        "import json, sys\n"
        "from pathlib import Path\n"
        "import rag_service.main, rag_service.cli.stack.serve\n"
        "from rag_service.answering.models import embedder_of\n"
        "from rag_service.settings import Settings\n"
        "settings = Settings(embedding_model=sys.argv[1], embedding_device='workers', _env_file=None)\n"
        "print(json.dumps(embedder_of(settings, Path, sys.argv[2]).embed_query('one two').tolist()))\n"
    )
    with serving(client, model):
        done = subprocess.run(
            [sys.executable, "-c", script, str(model.folder), redis_url],
            env={"PYTHONPATH": str(tmp_path), "PATH": "/usr/bin:/bin"},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
    assert done.returncode == 0, done.stderr
    assert np.array_equal(np.float32(json.loads(done.stdout)), model.embed_query("one two"))


def test_the_threads_of_a_request_are_given_back_before_its_reply(
    redis_url: str, client: Any, model: SentenceTransformerEmbedder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Beside a second pool of threads, those of the engine sleep between pieces of work."""
    replied: list[bool] = []

    def given_back() -> bool:
        replied.append(bool(client.keys("rag:*embed*reply*")))
        return True

    monkeypatch.setattr(embedding_server, "give_back_threads", given_back)
    with serving(client, model):
        WorkerEmbedder(SentenceTransformerEmbedder(model.folder), redis_url).embed_query("fox")
    assert replied == [False]


def test_a_worker_gives_back_the_threads_that_loaded_its_models(monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[str] = []
    monkeypatch.setattr(main, "load", lambda config, name: (done.append("load"), {}))
    monkeypatch.setattr(main, "give_back_threads", lambda: done.append("give back"))
    monkeypatch.setattr(main, "serve", lambda *given: done.append("serve"))
    config: Any = SimpleNamespace(name="w", redis_url="redis://localhost", concurrency=1, drain_s=1.0)
    main.run_worker(config)
    assert done == ["load", "give back", "serve"]
