"""`rag doctor`: what is missing, and how to fix it."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from pathlib import Path

import httpx
import typer

from rag_service.answering.models import model_folder
from rag_service.cli.console import out, print_json
from rag_service.cli.options import Json
from rag_service.cli.stack import running
from rag_service.errors import InvalidSettings
from rag_service.settings import Settings, load_settings
from rag_service.stack.exit_status import FAILED
from rag_service.unknown_settings import unknown_settings
from retriever import EmbedderUnavailable
from retriever.embedder import ProviderEmbedder, names_provider

PACKAGES = ("torch", "transformers", "tokenizers", "faiss", "sentence_transformers", "celery", "redis", "fastapi")
_ELSEWHERE = (
    "It has a data folder other than this one, and what is missing above is not missing there: run `rag doctor` where "
    "it was started, or set RAG_DATA_DIR."
)
NEEDED_BYTES = 2 * 10**9


@dataclass(frozen=True)
class Finding:
    """One thing looked at. `fix` is empty where nothing is to be done; things that are `ok` may have one, too."""

    what: str
    ok: bool
    found: str
    fix: str = ""


def doctor(as_json: Json = False) -> None:
    """Say what is missing, and how to fix it.

    Looks at everything a stack needs. Exit status 1 if something is missing.
    """
    findings = list(look(load_settings()))
    if as_json:
        print_json([asdict(finding) for finding in findings])
    else:
        screen = out()
        for finding in findings:
            mark, style = ("MISSING", "red") if not finding.ok else ("ok     ", "green")
            if finding.ok and finding.fix:
                mark, style = "look   ", "yellow"
            screen.print(mark, style=style, end=" ")
            screen.print(f"{finding.what}: {finding.found}")
            if finding.fix:
                screen.print(f"        {finding.fix}")
    if not all(finding.ok for finding in findings):
        raise typer.Exit(FAILED)


def look(settings: Settings) -> Iterator[Finding]:
    """Everything a stack needs, in the order in which it needs it."""
    yield _python()
    yield _packages()
    yield _settings()
    yield _data_dir(settings.data_dir)
    models = [("target model", settings.model), ("embedding model", settings.embedding_model)]
    if settings.draft_model is not None:
        models.append(("draft model", settings.draft_model))
    all_there = True
    for what, model in models:
        found = _model(what, model, settings.models_folder)
        all_there = all_there and found.ok
        yield found
    yield _device(settings.device)
    yield _dtype(settings.dtype, settings.device, Path("/proc/cpuinfo"))
    yield _redis(running.redis_url(settings))
    elsewhere = not all_there and running.read(settings.data_dir) is None
    yield _service(running.api_url(settings), elsewhere)
    yield from _worker_memory(running.redis_url(settings))


def _python() -> Finding:
    version = ".".join(map(str, sys.version_info[:3]))
    fine = sys.version_info >= (3, 11)
    return Finding("Python", fine, version, "" if fine else "Install Python 3.11 or later.")


def _packages() -> Finding:
    missing = [name for name in PACKAGES if find_spec(name) is None]
    if not missing:
        return Finding("packages", True, "all installed")
    return Finding("packages", False, f"without {', '.join(missing)}", "Install the project again: pip install -e .")


def _settings() -> Finding:
    unknown = unknown_settings()
    if not unknown:
        return Finding("settings", True, "all known")
    return Finding("settings", True, " ".join(unknown), "Correct the names, in the environment or in .env.")


def _data_dir(folder: Path) -> Finding:
    existing = folder.resolve()
    shown = folder if folder.is_absolute() else f"{folder} in {Path.cwd()}"
    while not existing.exists():
        existing = existing.parent
    if not existing.is_dir() or not os.access(existing, os.W_OK | os.X_OK):
        return Finding("data folder", False, f"{shown} cannot be written to", "Set RAG_DATA_DIR to another folder.")
    free = shutil.disk_usage(existing).free
    if free < NEEDED_BYTES:
        return Finding("data folder", False, f"{shown}, {free / 1e9:.1f} GB free", "Free at least 2 GB, or move it.")
    return Finding("data folder", True, f"{shown}, {free / 1e9:.0f} GB free")


def _model(what: str, model: str, models_folder: Path) -> Finding:
    if what == "embedding model" and names_provider(model):
        load = ProviderEmbedder(model).load
        return _try(what, f"{model} through LangChain", load, (EmbedderUnavailable,), "See docs/how-to/own-model.md.")
    try:
        return Finding(what, True, f"{model} in {model_folder(model, models_folder)}")
    except InvalidSettings:
        return Finding(
            what,
            False,
            f"{model} is not in {models_folder.resolve()}",
            f"Run `rag models pull {model}` (`rag up` does it too).",
        )


def _device(device: str) -> Finding:
    if device == "cpu":  # which every torch has, and looking takes seconds
        return Finding("device", True, device)
    from workers.worker.devices import device_problem

    found = device_problem(device)
    if found is None:
        return Finding("device", True, device)
    return Finding("device", False, found, "Set RAG_DEVICE to cpu, or to a device that is there.")


def _dtype(dtype: str, device: str, processor: Path) -> Finding:
    """A half-precision model on a processor without instructions for it runs many times slower than in float32."""
    found = f"{dtype} on {device}"
    if device != "cpu" or dtype not in {"bfloat16", "float16"} or not processor.is_file():
        return Finding("number format", True, found)
    flags = set(
        processor.read_text(encoding="utf-8", errors="replace").partition("flags")[2].partition("\n")[0].split()
    )
    wanted = {"amx_bf16", "avx512_bf16"} if dtype == "bfloat16" else {"amx_fp16", "avx512_fp16"}
    if flags & wanted or not flags:
        return Finding("number format", True, found)
    return Finding(
        "number format",
        True,
        f"{found}, which this processor computes slowly",
        "Set RAG_DTYPE=float32: it is faster here.",
    )


def _redis(url: str | None) -> Finding:
    if url is None:
        return _private_redis()
    from redis.exceptions import RedisError

    from workers.broker.app import make_redis

    shown = httpx.URL(url).host or url.rpartition("@")[2]
    return _try(
        "Redis", f"answers at {shown}", lambda: make_redis(url).ping(), (RedisError, ValueError, OSError),
        "Start it, or correct RAG_REDIS_URL; without RAG_REDIS_URL `rag up` brings its own.",
    )  # fmt: skip


def _private_redis() -> Finding:
    from workers.broker.embedded_redis import EmbeddedRedisError, _binary

    return _try(
        "Redis", "none is set; `rag up` brings its own", _binary, (EmbeddedRedisError,), "Set RAG_REDIS_URL."
    )  # fmt: skip


def _service(url: str, elsewhere: bool) -> Finding:
    """Args: elsewhere: it cannot be one that runs on this data folder."""
    try:
        response = httpx.get(f"{url}/readyz", timeout=5.0)
    except (httpx.HTTPError, httpx.InvalidURL):
        return Finding("service", False, f"nothing answers at {url}", "Start everything with `rag up`.")
    if response.is_success:
        return Finding("service", True, f"ready at {url}", _ELSEWHERE if elsewhere else "")
    try:
        detail = response.json()["detail"]
    except (ValueError, KeyError, TypeError):
        return Finding("service", False, f"something else answers at {url}", "Start rag-service on another --port.")
    return Finding("service", False, f"{url} is up but not ready", detail)


def _worker_memory(url: str | None) -> Iterator[Finding]:
    """What neural drafters and kept rows take in the running workers, where they take something."""
    if url is None:
        return
    from workers.broker.app import make_app, make_redis
    from workers.sessions.queue import Queue, QueueUnavailable

    try:
        workers = Queue(make_app(url), make_redis(url)).workers()
    except (QueueUnavailable, ValueError, OSError):
        return
    for worker in workers:
        taken = {what.replace("_", " "): size for what, size in (worker.get("memory") or {}).items()}
        if kept := (worker.get("kv_cache") or {}).get("bytes"):
            taken["keys and values of earlier turns"] = kept
        if taken:
            found = ", ".join(f"{what} {size / 1e6:.3g} MB" for what, size in taken.items())
            yield Finding("worker memory", True, f"{worker['name']}: {found}")


def _try(what: str, fine: str, action: Callable[[], object], errors: tuple[type[Exception], ...], fix: str) -> Finding:
    try:
        action()
    except errors as error:
        return Finding(what, False, str(error) or type(error).__name__, fix)
    return Finding(what, True, fine)
