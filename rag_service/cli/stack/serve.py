"""`rag serve` and `rag worker`: the two processes of a stack."""

from __future__ import annotations

import logging
import socket
from typing import Annotated

import typer

from rag_service.cli.console import CliError
from rag_service.cli.options import Host, Port, without_none
from rag_service.cli.stack import access_log, addresses
from rag_service.cli.stack.connect import local_key_of
from rag_service.cli.stack.data_folder import keep_private
from rag_service.cli.stack.in_force import settings_in_force
from rag_service.settings import Settings
from rag_service.stack.exit_status import UNREACHABLE
from rag_service.stack.process import end_with_parent

log = logging.getLogger(__name__)

LOG_FORMAT = "%(asctime)s %(levelname)s %(name)s: %(message)s"
HEAD_BYTES = 16 * 1024
"""Longest head of a request."""
Parent = Annotated[int | None, typer.Option(hidden=True, help="Process whose end ends this one.")]


def serve(
    host: Host = None,
    port: Port = None,
    fd: Annotated[int | None, typer.Option(hidden=True, help="Listening socket to use.")] = None,
    parent: Parent = None,
) -> None:
    """Run the HTTP API only."""
    end_with_parent(parent)
    settings = _with_redis(settings_in_force(**without_none(host=host, port=port)))
    local_key_of(settings)
    import uvicorn

    from rag_service.api.connections import protocol
    from rag_service.main import create_app

    bound = socket.socket(fileno=fd) if fd is not None else bind(settings.host, settings.port)
    keep_private(settings.data_dir)
    _begin_log()
    config = uvicorn.Config(
        create_app(settings),
        http=protocol(settings.limits),
        ws="none",
        h11_max_incomplete_event_size=HEAD_BYTES,
        log_level="info",
        log_config=None,
        timeout_graceful_shutdown=3,
    )
    logging.getLogger("uvicorn.access").addFilter(access_log.kept)
    server = uvicorn.Server(config)
    server.run(sockets=[bound])
    if not server.started:
        raise CliError("The API did not start; the lines above say why.")


def worker(
    name: Annotated[
        str | None, typer.Option(metavar="NAME", help="Name of this worker.  [default: host and process id]")
    ] = None,
    ingest: Annotated[bool, typer.Option(help="Also ingest documents, which needs the API's data folder.")] = True,
    parent: Parent = None,
) -> None:
    """Run one worker: it generates answers and ingests documents."""
    end_with_parent(parent)
    settings = _with_redis(settings_in_force())
    keep_private(settings.data_dir)
    _begin_log()
    log.info("starting the worker's programs; about 10 s, more on a busy machine")
    from workers.worker.main import WorkerConfig, run_worker

    assert settings.redis_url is not None
    embedding_device, embedding_dtype = settings.embedding_place
    config = WorkerConfig(
        redis_url=settings.redis_url,
        data_dir=settings.data_dir,
        models_dir=settings.models_folder,
        model=settings.model,
        embedding_model=settings.embedding_model if ingest else None,
        embedding_device=embedding_device,
        embedding_dtype=embedding_dtype,
        embedding_prefixes=settings.embedding_prefixes,
        dtype=settings.number_format,
        exact=settings.exact,
        device=settings.device,
        drafter=settings.drafter,
        draft_model=settings.draft_model,
        eagle_head=settings.eagle_head,
        sdsat_adapters=settings.sdsat_adapters,
        eagle_allow_pickle=settings.eagle_allow_pickle,
        concurrency=settings.concurrency,
        name=name,
        answer_ttl_s=settings.answers.ttl,
        session_ttl_s=settings.answers.session_ttl,
        usage_days=settings.answers.usage_days,
        store_tokens=settings.answers.store_tokens,
        kv_cache_bytes=settings.kv_cache_bytes,
        calibration=settings.answers.calibration,
        ocr_languages=settings.ocr.languages,
        ocr_seconds=settings.ocr.seconds,
        keep_originals=settings.keep_originals,
        store_url=settings.store,
        endpoints=settings.endpoints,
    )
    try:
        status = run_worker(config)
    except (ValueError, OSError, RuntimeError) as error:
        raise CliError(str(error)) from error
    raise typer.Exit(status)


def bind(host: str, port: int) -> socket.socket:
    """A socket that listens on the address. Raises CliError if the address cannot be used."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    bound = socket.socket(family, socket.SOCK_STREAM)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        bound.bind((host, port))
        bound.listen(128)
    except OSError as error:
        bound.close()
        raise CliError(
            f"Cannot listen on {host}:{port} ({error.strerror}). Choose another port with --port (0 takes a free one), "
            "or stop the program that uses it."
        ) from None
    bound.set_inheritable(True)
    return bound


def _begin_log() -> None:
    logging.basicConfig(level=logging.INFO, format=LOG_FORMAT)
    logging.getLogger("faiss").setLevel(logging.WARNING)  # it lists the builds that this machine lacks


def _with_redis(settings: Settings) -> Settings:
    url = addresses.redis_url(settings)
    if url is None:
        raise CliError(
            "No Redis is set. Set RAG_REDIS_URL (redis://host:port/0), or run `rag up`, which starts its own.",
            UNREACHABLE,
        )
    return settings.model_copy(update={"redis_url": url})
