"""The API against a real Redis and a real Celery worker, whose engine speaks from a script."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import socket
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest
import uvicorn

from rag_service.answering.pipeline import Pipeline
from rag_service.main import create_app
from rag_service.prompting.rewriting import standalone as rewrite
from rag_service.settings import Settings
from retriever import Library, SourceDocument
from tests.support.fake_workers import FakeEngine, make_worker_context, running_worker, save_tokenizer
from tests.support.hash_embedder import HashEmbedder
from tests.support.peers.scripted_upstream import scripted, speaking
from workers.broker import keys
from workers.broker.app import make_redis
from workers.broker.embedded_redis import EmbeddedRedis
from workers.tokens.own_tokens import own_tokens
from workers.tokens.tokenizer import Tokens
from workers.upstream.runtime import UpstreamRuntime
from workers.worker.tasks import WorkerContext

WINDOW = 1200
MODEL = "smollm2-135m"
ENGINES = os.environ.get("ENGINES", "decoder upstream").split()
"""Engines that the tests run against; `ENGINES=decoder` for one of them."""
FOXES = (
    "# Foxes\n\nThe quick brown fox jumps over the lazy dog every morning before breakfast.\n\n"
    "# Bridges\n\nOver the bridge of Köln walk 東京 visitors 😀 and many naïve café owners each year.\n"
)


@dataclass
class Stage:
    """What the scripted engine says, and whether it may go on."""

    tokens: Tokens
    text: str = "The quick brown fox jumps over the lazy dog every morning before breakfast."
    open: threading.Event = field(default_factory=threading.Event)
    waiting: threading.Event = field(default_factory=threading.Event)
    hold_at: int | None = None
    """Number of tokens at which every answer waits for `open`."""
    prompts: list[list[int]] = field(default_factory=list)
    rewritten: str = ""
    """What follow-ups are rewritten to; nothing of use by default."""
    rewrites: list[str] = field(default_factory=list)
    """The prompts that asked for it, as text; the others are in `prompts`."""

    def rewrites_a_question(self, prompt: Sequence[int]) -> bool:
        return rewrite.TASK in self.tokens.decode(prompt)

    def script(self, prompt: Sequence[int]) -> list[int]:
        text = self.rewritten if self.rewrites_a_question(prompt) else self.text
        return self.tokens.encode_content(text).ids

    def before_step(self, sequence: Any) -> None:
        if self.rewrites_a_question(sequence.prompt):
            if not sequence.tokens:
                self.rewrites.append(self.tokens.decode(sequence.prompt))
            return
        if not sequence.tokens:
            self.prompts.append(list(sequence.prompt))
        if self.hold_at is not None and len(sequence.tokens) >= self.hold_at:
            self.waiting.set()
            assert self.open.wait(30)


@dataclass
class World:
    redis_url: str
    data_dir: Path
    tokens: Tokens
    stage: Stage
    place: WorkerContext
    window: int = WINDOW
    settings: dict[str, Any] = field(default_factory=dict)
    """Those of the API that its engine needs."""

    @property
    def engine(self) -> str:
        return "upstream" if self.settings else "decoder"

    def wait_for_cancel(self) -> None:
        """Wait until the worker has seen the flag of its only running answer."""
        (seen,) = self.place.cancels._watched
        assert seen.wait(30)


@pytest.fixture(scope="session")
def redis_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with EmbeddedRedis(tmp_path_factory.mktemp("redis")) as server:
        yield server.url


@pytest.fixture(scope="session")
def tokens(tmp_path_factory: pytest.TempPathFactory) -> Tokens:
    return Tokens.load(save_tokenizer(tmp_path_factory.mktemp("tokenizer")))


@pytest.fixture(scope="session")
def data_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data folder with the collection `animals`."""
    folder = tmp_path_factory.mktemp("data")
    library = Library(folder, HashEmbedder())
    library.create("animals").ingest([SourceDocument(name="foxes.md", document_id="foxes", text=FOXES, title="Foxes")])
    library.close()
    return folder


SECOND_ENGINE_IN_FULL = {
    "access", "anthropic", "citing", "cli", "client", "langchain", "llamaindex", "mcp", "oidc", "sync", "web",
    "asking", "test_docs", "test_hostile_bodies", "test_ids", "test_schemathesis",
}  # fmt: skip
"""Folders and files whose tests run with a model server in the long suites only, but for those of model servers."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        parameters = item.callspec.params if hasattr(item, "callspec") else {}
        second = parameters.get("engine_name") == "upstream" and "upstream" not in item.path.name
        if second and SECOND_ENGINE_IN_FULL & {item.path.parent.name, item.path.stem}:
            item.add_marker(pytest.mark.full)


@pytest.fixture(scope="session", params=ENGINES)
def engine_name(request: pytest.FixtureRequest) -> str:
    """`decoder`: our own engine, scripted. `upstream`: a model server behind the worker, of the same script."""
    return str(request.param)


@pytest.fixture(scope="session")
def _working(redis_server: str, data_dir: Path, tokens: Tokens, engine_name: str) -> Iterator[World]:
    client = make_redis(redis_server)
    client.flushall()
    client.close()
    tokens = own_tokens() if engine_name == "upstream" else tokens
    stage = Stage(tokens)
    settings: dict[str, Any] = {}
    with contextlib.ExitStack() as stack:
        engine: Any
        if engine_name == "upstream":
            server = stack.enter_context(scripted(speaking(tokens, stage.script, stage.before_step)))
            settings = upstream_settings(server.url, WINDOW)
            engine = UpstreamRuntime(make_settings(data_dir, **settings).endpoints)
        else:
            engine = FakeEngine(tokens, stage.script, window=WINDOW, before_step=stage.before_step)
        library = Library(data_dir, HashEmbedder())
        place = make_worker_context(redis_server, tokens, engine, library, data_dir / "uploads")
        stack.enter_context(running_worker(redis_server, place, info={"model": "fake", "tokenizer": tokens.hash}))
        while not place.client.exists(keys.WORKERS):
            time.sleep(0.01)
        yield World(redis_server, data_dir, tokens, stage, place, settings=settings)


@pytest.fixture
def world(_working: World, request: pytest.FixtureRequest) -> Iterator[World]:
    """Redis and a worker that speaks from `world.stage`."""
    skip_of_other_engines(request, _working.engine != "decoder")
    stage = _working.stage
    fresh = Stage(_working.tokens)
    stage.text, stage.rewritten, stage.hold_at = fresh.text, fresh.rewritten, None
    stage.open.clear()
    stage.waiting.clear()
    stage.prompts.clear()
    stage.rewrites.clear()
    yield _working
    stage.open.set()


def make_settings(data_dir: Path, **changes: Any) -> Settings:
    """Open without a key, with the toy model's name, unless `changes` say otherwise."""
    usual = {"data_dir": data_dir, "open_without_key": True, "model": MODEL, "dtype": "float32"}
    return Settings(_env_file=None, **{**usual, **changes})  # type: ignore[call-arg]


def skip_of_other_engines(request: pytest.FixtureRequest, other: bool) -> None:
    """Skip a test of `decoder_only(reason)` where another engine answers."""
    if other and (marker := request.node.get_closest_marker("decoder_only")):
        pytest.skip(f"of our own engine only: {marker.args[0]}")


def upstream_settings(url: str, window: int) -> dict[str, Any]:
    """Those with a scripted model server behind the workers."""
    return {"engine": "openai", "upstream": {"url": url, "model": MODEL, "server": "llama.cpp", "window": window}}


@pytest.fixture
def make_client(tokens: Tokens, request: pytest.FixtureRequest) -> Callable[..., Any]:
    """`async with make_client(redis_url, data_dir, **settings) as client`; the pipeline is `client.pipeline`.

    Its engine is that of `world`, if the test has one.
    """
    from contextlib import asynccontextmanager

    @asynccontextmanager
    async def make(redis_url: str, data_dir: Path, **changes: Any) -> AsyncIterator[httpx.AsyncClient]:
        world = request.getfixturevalue("world") if "world" in request.fixturenames else None
        settings = make_settings(data_dir, **{**getattr(world, "settings", {}), **changes})
        own = world.tokens if world else tokens
        pipeline = Pipeline(settings, redis_url, embedder=HashEmbedder(), tokens=own, window=WINDOW)
        app = create_app(pipeline=pipeline)
        transport = httpx.ASGITransport(app=app, raise_app_exceptions=False)
        async with (
            app.router.lifespan_context(app),
            httpx.AsyncClient(transport=transport, base_url="http://rag", timeout=60) as client,
        ):
            client.pipeline = pipeline  # type: ignore[attr-defined]
            yield client

    return make


@pytest.fixture
async def client(world: World, make_client: Callable[..., Any]) -> AsyncIterator[httpx.AsyncClient]:
    async with make_client(world.redis_url, world.data_dir) as client:
        yield client


@contextlib.contextmanager
def serving(world: World, **changes: Any) -> Iterator[str]:
    """The address of the API over a real connection, with the scripted worker behind it; `changes` to the settings."""
    settings = make_settings(world.data_dir, **{**getattr(world, "settings", {}), **changes})
    bound = socket.socket()
    bound.bind(("127.0.0.1", 0))
    started = threading.Event()
    server: list[uvicorn.Server] = []

    async def serve() -> None:
        pipeline = Pipeline(
            settings, world.redis_url, embedder=HashEmbedder(), tokens=world.tokens, window=world.window
        )
        config = uvicorn.Config(create_app(pipeline=pipeline), log_level="critical", timeout_graceful_shutdown=1)
        server.append(uvicorn.Server(config))
        running_server = asyncio.create_task(server[0].serve(sockets=[bound]))
        while not server[0].started:
            await asyncio.sleep(0.01)
        started.set()
        await running_server

    thread = threading.Thread(target=lambda: asyncio.run(serve()), daemon=True)
    thread.start()
    assert started.wait(30)
    yield f"http://127.0.0.1:{bound.getsockname()[1]}"
    server[0].should_exit = True
    thread.join(30)
    assert not thread.is_alive()


@pytest.fixture
def api_url(world: World) -> Iterator[str]:
    with serving(world) as url:
        yield url


@pytest.fixture(scope="session")
def serve() -> Callable[..., contextlib.AbstractContextManager[str]]:
    """`with serve(world) as url`, for worlds of one's own."""
    return serving


@pytest.fixture(scope="session")
def _live(_working: World) -> Iterator[str]:
    with serving(_working) as url:
        yield url


@pytest.fixture
def live_url(_live: str, world: World) -> str:
    """The API over a real connection, one for all tests; `world.stage` says what it answers."""
    return _live


@pytest.fixture(scope="session")
def tiny_models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny Llama and a tiny sentence-transformers model, random, in the models folder."""
    import torch
    from sentence_transformers import SentenceTransformer
    from transformers import BertConfig, BertModel, BertTokenizer, LlamaConfig, LlamaForCausalLM

    folder = tmp_path_factory.mktemp("models")
    torch.manual_seed(0)
    target = save_tokenizer(folder / "tiny")
    sizes: dict[str, Any] = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2}
    heads = {"num_attention_heads": 4, "max_position_embeddings": 2048}
    config = LlamaConfig(vocab_size=512, num_key_value_heads=2, **sizes, **heads)
    LlamaForCausalLM(config).save_pretrained(target)
    base = folder / "bert"
    base.mkdir()
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *"abcdefghijklmnopqrstuvwxyz", "fox", "dog"]
    (base / "vocab.txt").write_text("\n".join(words))
    BertTokenizer(vocab=str(base / "vocab.txt")).save_pretrained(base)
    BertModel(BertConfig(vocab_size=len(words), **sizes, **heads)).save_pretrained(base)
    SentenceTransformer(str(base), device="cpu").save(str(folder / "tiny-embedder"))  # with mean pooling
    return folder


def parse_sse(text: str) -> list[tuple[str | None, str, Any]]:
    """(id, name, data) of each event; comments are left out."""
    events = []
    for block in text.split("\n\n"):
        fields = dict(line.split(": ", 1) for line in block.split("\n") if line and not line.startswith(":"))
        if fields:
            events.append((fields.get("id"), fields["event"], json.loads(fields["data"])))
    return events


@pytest.fixture
def parse() -> Callable[[str], list[tuple[str | None, str, Any]]]:
    return parse_sse


@pytest.fixture(autouse=True)
def _no_key_of_this_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    """Clients send no key unless a test says so: not the one of a service that was started in this folder."""
    monkeypatch.setenv("RAG_API_KEY", "")


@pytest.fixture
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No `.env`, no running stack, no settings from outside."""
    monkeypatch.chdir(tmp_path)
    for name in [name for name in os.environ if name.startswith("RAG_")]:
        monkeypatch.delenv(name)
