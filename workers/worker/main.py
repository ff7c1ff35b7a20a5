"""One worker process: loads the models, then takes tasks until a signal stops it.

Knows the order of startup and shutdown; knows no settings files and no environment.
"""

from __future__ import annotations

import logging
import os
import signal
import threading
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from celery import Celery, signals
from celery.exceptions import SecurityWarning

from decoder.catalogue import DEFAULT_EMBEDDING_MODEL, DEFAULT_MODEL
from decoder.openmp import give_back_threads
from workers.broker.app import GENERATE_QUEUE, INGEST_QUEUE, make_app, make_redis
from workers.embedding.embedding_server import EmbeddingServer
from workers.sessions import costs
from workers.sessions.routing import own_queue
from workers.sessions.streams import ANSWER_TTL_S, SESSION_TTL_S
from workers.support import calibration
from workers.tokens.own_tokens import own_tokens
from workers.tokens.tokenizer import Tokens
from workers.upstream.endpoint import Endpoint
from workers.upstream.runtime import UpstreamRuntime
from workers.worker.heartbeat import Heartbeat, default_name
from workers.worker.kv_store import MOST_BYTES, KvStore
from workers.worker.memory import shortage
from workers.worker.runtime import Runtime
from workers.worker.supporter import Supporter
from workers.worker.tasks import WorkerContext, register

if TYPE_CHECKING:
    from decoder.dtypes import EngineExact
    from retriever import Library

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class WorkerConfig:
    """The configuration of a worker process.

    Attributes:
        redis_url: `redis://host:port/0`, `rediss://…` or `unix:///path/to.sock`.
        data_dir: has the collections, and the uploads in `uploads`.
        models_dir: folder of named models; by default `models` in the data folder.
        model: target model: a name, a folder, or a hub id.
        embedding_model: a name, a folder, or `provider:model`; None for a worker that ingests nothing.
        embedding_device, embedding_dtype, embedding_prefixes: as `retriever.make_embedder`.
        dtype, exact, device, drafter, draft_model, eagle_head, sdsat_adapters: as `decoder.load_engine`.
        eagle_allow_pickle: its `allow_pickle`.
        concurrency: number of answers decoded together.
        name: of this worker; by default made from host and process.
        drain_s: seconds that running answers have after a stop signal; then they go back to the queue.
        answer_ttl_s, session_ttl_s: lifetime of answers and sessions, in seconds.
        usage_days: days for which the tokens that a tenant's answers cost are kept.
        store_tokens: tokens of earlier answers to copy from, for each collection.
        kv_cache_bytes: memory for keys and values of earlier turns; 0 stores none.
        ocr_languages, ocr_seconds: as `retriever.ReadLimits`.
        keep_originals: whether uploaded files are kept with their documents.
        store_url: PostgreSQL that has the collections, `postgresql://…`; None: the data folder has them.
        endpoints: model servers that generate the answers, the one of jobs that name none first; empty: the engine of
            this process does, and `model` is loaded.
        calibration: file of `rag bench answers --calibrate` for this model; None uses the package's.
    """

    redis_url: str
    data_dir: Path
    model: str = DEFAULT_MODEL
    embedding_model: str | None = DEFAULT_EMBEDDING_MODEL
    models_dir: Path | None = None
    embedding_device: str = "cpu"
    embedding_dtype: str = "float32"
    embedding_prefixes: tuple[str | None, str | None] = (None, None)
    dtype: str = "float32"
    exact: EngineExact = "auto"
    device: str = "cpu"
    drafter: str = "auto"
    draft_model: str | None = None
    eagle_head: str | None = None
    eagle_allow_pickle: bool = False
    sdsat_adapters: str | None = None
    concurrency: int = 8
    name: str | None = None
    drain_s: float = 5.0
    answer_ttl_s: int = ANSWER_TTL_S
    session_ttl_s: int = SESSION_TTL_S
    usage_days: int = costs.DAYS
    store_tokens: int = 0
    kv_cache_bytes: int = MOST_BYTES
    calibration: Path | None = None
    ocr_languages: str = "eng"
    ocr_seconds: float = 300.0
    keep_originals: bool = False
    store_url: str | None = None
    endpoints: tuple[Endpoint, ...] = ()

    @property
    def models_folder(self) -> Path:
        return self.models_dir or self.data_dir / "models"

    @property
    def uploads_dir(self) -> Path:
        return self.data_dir / "uploads"


def run_worker(config: WorkerConfig) -> int:
    """Run a worker in this process until SIGTERM or SIGINT; returns its exit status. Call it from the main thread.

    Raises:
        ValueError and its kind: a model cannot be found or used; the message says what to do.
    """
    if not logging.getLogger().handlers:
        logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    name = config.name or default_name()
    context, info = load(config, name)
    give_back_threads()
    return serve(make_app(config.redis_url), context, info, config.concurrency, config.drain_s)


def load(config: WorkerConfig, name: str) -> tuple[WorkerContext, dict[str, Any]]:
    """Load tokenizer, engine and embedder. Returns the worker context and the worker's information."""
    from decoder import load_engine
    from decoder.models import resolve

    own = None if config.calibration is None else calibration.read(config.calibration.read_text(encoding="utf-8"))
    if config.endpoints:
        tokens = own_tokens()
        context = WorkerContext(
            client=make_redis(config.redis_url),
            tokens=tokens,
            runtime=UpstreamRuntime(config.endpoints),
            library=_library(config),
            uploads_dir=config.uploads_dir,
            name=name,
            answer_ttl_s=config.answer_ttl_s,
            session_ttl_s=config.session_ttl_s,
            usage_days=config.usage_days,
            store_url=config.store_url,
            calibration=own,
        )
        return context, {
            "engine": "upstream",
            "model": config.endpoints[0].model,
            "upstreams": {endpoint.name: endpoint.model for endpoint in config.endpoints},
            "tokenizer": tokens.hash,
            "window": min(endpoint.window for endpoint in config.endpoints),
            "concurrency": config.concurrency,
        }
    folder = resolve(config.model, config.models_folder)
    log.info("loading the tokenizer of %s from %s", config.model, folder)
    tokens = Tokens.load(folder)
    if tokens.has_chat_template and not tokens.append_only:
        log.warning("the chat template of %s rewrites earlier turns: every follow-up prefills anew", config.model)
    engine = load_engine(
        str(folder),
        drafter=config.drafter,
        draft_model=config.draft_model,
        eagle_head=config.eagle_head,
        allow_pickle=config.eagle_allow_pickle,
        sdsat_adapters=config.sdsat_adapters,
        dtype=config.dtype,
        exact=config.exact,
        device=config.device,
        models_dir=config.models_folder,
        state_dir=config.data_dir / "learned",
    )
    if config.device.startswith("cuda") and engine.target.graphs is None:
        log.warning("passes run without CUDA graphs, which is slow: %s", engine.target.graphs_problem)
    context = WorkerContext(
        client=make_redis(config.redis_url),
        tokens=tokens,
        runtime=Runtime(engine, tokens, KvStore(config.kv_cache_bytes, shortage(config.device))),
        library=_library(config),
        uploads_dir=config.uploads_dir,
        name=name,
        model=Path(config.model).name,
        answer_ttl_s=config.answer_ttl_s,
        session_ttl_s=config.session_ttl_s,
        usage_days=config.usage_days,
        store_tokens=config.store_tokens,
        store_url=config.store_url,
        supporter=Supporter(tokens, Path(config.model).name, config.dtype, own),
    )
    info = {
        "engine": "decoder",
        "model": config.model,
        "tokenizer": tokens.hash,
        "window": engine.target.max_positions,
        "drafter": config.drafter,
        "draft_model": config.draft_model,
        "eagle_head": None if engine.context.eagle_head is None else config.eagle_head or "shipped",
        "sdsat_adapters": None if engine.target.adapters is None else config.sdsat_adapters or "shipped",
        "memory": engine.context.memory(),
        "device": config.device,
        "dtype": config.dtype,
        "exact": "bitwise" if engine.target.bitwise else "default",
        "concurrency": config.concurrency,
    }
    return context, info


def _library(config: WorkerConfig) -> Library | None:
    """The worker's collections, with the embedding model loaded; None for a worker that ingests nothing."""
    from decoder.models import resolve
    from retriever import Library, ReadLimits, make_embedder, open_stores

    if config.embedding_model is None:
        return None
    embedder = make_embedder(
        config.embedding_model,
        lambda model: resolve(model, config.models_folder),
        config.embedding_device,
        config.embedding_dtype,
        *config.embedding_prefixes,
    )
    log.info("loading the embedding model %s; some seconds", config.embedding_model)
    embedder.load()
    limits = ReadLimits(ocr_languages=config.ocr_languages, ocr_seconds=config.ocr_seconds)
    stores = open_stores(config.store_url, config.data_dir)
    return Library(config.data_dir, embedder, limits=limits, stores=stores, keep_originals=config.keep_originals)


def queues(context: WorkerContext) -> list[str]:
    """The worker's queues; a worker without an embedder takes no ingests."""
    return [GENERATE_QUEUE, *([] if context.library is None else [INGEST_QUEUE]), own_queue(context.name)]


def serve(app: Celery, context: WorkerContext, info: dict[str, Any], concurrency: int = 8, drain_s: float = 5.0) -> int:
    """Take tasks until a stop signal, then give running answers `drain_s` seconds. Returns the exit status."""
    register(app, context)
    stop_requested = threading.Event()

    def alive() -> bool:
        if not context.runtime.alive and not stop_requested.is_set():
            log.error("the engine's thread ended; this worker stops, so that a new one can take its tasks")
            os.kill(os.getpid(), signal.SIGTERM)
        return context.runtime.alive

    def present() -> dict[str, Any]:
        return {**info, **context.state(), "places": concurrency, "embedder": embedder and embedder.name}

    embedder = None if context.library is None else context.library.embedder
    embedding = None if embedder is None else EmbeddingServer(context.client, embedder)
    heartbeat = Heartbeat(context.client, context.name, present, alive, lambda: context.after_beat(app))
    grace = threading.Timer(drain_s, context.runtime.close)
    grace.daemon = True

    def ready(**_: Any) -> None:
        heartbeat.start()
        if embedding is not None:
            embedding.start()
        log.info("worker %s is ready: %s", context.name, info)

    def stopping(**_: Any) -> None:
        if not stop_requested.is_set():
            stop_requested.set()
            grace.start()

    # Celery warns of root because of pickled messages; these are JSON.
    warnings.filterwarnings("ignore", category=SecurityWarning)
    signals.worker_ready.connect(ready, weak=False)
    signals.worker_shutting_down.connect(stopping, weak=False)
    try:
        worker = app.Worker(
            hostname=f"rag@{context.name}",
            pool="threads",
            concurrency=concurrency + 1,  # one more for an ingest
            queues=queues(context),
            without_gossip=True,
            without_mingle=True,
            without_heartbeat=True,
            quiet=True,
            loglevel=None,
        )
        worker.start()
        return int(worker.exitcode or 0)
    finally:
        signals.worker_ready.disconnect(ready)
        signals.worker_shutting_down.disconnect(stopping)
        heartbeat.stop()
        if embedding is not None:
            embedding.stop()
        grace.cancel()
        context.close()
        app.close()
