"""`rag doctor`: shows what is missing and how to fix it."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import httpx
import typer
from rich.filesize import decimal

from decoder import dtypes
from decoder.models import has_blocks
from rag_service.access import running
from rag_service.answering.models import model_folder, models_of
from rag_service.cli.console import err, out, print_json
from rag_service.cli.model_advice import cannot_be_pulled
from rag_service.cli.options import Json
from rag_service.cli.stack import addresses, model_servers
from rag_service.cli.stack.fastest_format import fastest_format
from rag_service.cli.stack.finding import Finding
from rag_service.errors import InvalidSettings
from rag_service.settings import Settings, load_settings
from rag_service.stack.exit_status import FAILED
from rag_service.unknown_settings import unknown_settings
from retriever import EmbedderUnavailable, RerankerUnavailable, RetrieverError
from retriever.embedding.provider_name import names_provider
from retriever.parsing import ocr

OF_THE_API = ("tokenizers", "faiss", "celery", "redis", "fastapi")
PACKAGES = ("torch", "transformers", "sentence_transformers", *OF_THE_API)
_OTHER_DATA_FOLDER = (
    "It has a data folder other than this one and needs nothing that is missing above. Run `rag doctor` where it was "
    "started, or set RAG_DATA_DIR."
)
NEEDED_BYTES = 2 * 10**9
CHECKING = "Checking …"


def doctor(as_json: Json = False) -> None:
    """Check everything that a stack needs, and say how to fix what is missing.

    The exit status is 1 if something is missing.
    """
    findings: list[Finding] = []
    settings = load_settings()
    if as_json:
        findings += check(settings)
    else:
        with err().status(CHECKING) as status:  # on terminals only
            for finding in check(settings, lambda what: status.update(f"Checking {what} …")):
                findings.append(finding)
                status.stop()  # or it would mix with what is printed
                _print(finding)
                status.update(CHECKING)
                status.start()
    if as_json:
        print_json([asdict(finding) for finding in findings])
    if not all(finding.ok for finding in findings):
        raise typer.Exit(FAILED)


def _print(finding: Finding) -> None:
    screen = out()
    mark, style = ("MISSING", "red") if not finding.ok else ("ok     ", "green")
    if finding.ok and finding.fix:
        mark, style = "look   ", "yellow"
    screen.print(mark, style=style, end=" ")
    screen.print(f"{finding.what}: {finding.found}")
    if finding.fix:
        screen.print(f"        {finding.fix}")
    screen.file.flush()  # the next check may take a while


def check(settings: Settings, begins: Callable[[str], None] = lambda what: None) -> Iterator[Finding]:
    """Everything that a stack needs, in the order in which it needs it; last, what takes long to find out.

    A stack that runs on the data folder says where its models are, if no setting does. `begins` is told of each check
    that may take a while.
    """
    stack = running.read(settings.data_dir)
    if stack is not None and stack.models_dir and settings.models_dir is None:
        settings = settings.model_copy(update={"models_dir": Path(stack.models_dir)})
    yield _python()
    without_models = settings.workers_embed and find_spec("torch") is None  # the API in an image of its own
    yield _packages(OF_THE_API if without_models else PACKAGES)
    yield _settings()
    yield _data_dir(settings.data_dir)
    if settings.store is not None:
        begins("the store")
        yield _store(settings.store)
    decodes = settings.engine == "decoder" and not without_models
    model_findings = []
    for setting in models_of(settings):
        if (model := getattr(settings, setting)) is not None:
            begins(f"the {_named(setting)}")
            model_findings.append(_model(setting, model, settings.models_folder))
            yield model_findings[-1]
    if decodes:
        begins("the device")
        yield _device(settings.device)
        blocks = model_findings[0].ok and has_blocks(model_folder(settings.model, settings.models_folder))
        yield _dtype(settings.number_format, settings.device, Path("/proc/cpuinfo"))
        if settings.number_format == dtypes.INT4 and model_findings[0].ok and not blocks:
            yield Finding(
                "integers of four bits",
                False,
                f"{settings.model} has none",
                "Set RAG_DTYPE=int8. A named model in Q4_K_M has them if you delete its folder and run `rag models "
                "pull` again (docs/how-to/own-model.md).",
            )
    for endpoint in settings.endpoints:
        begins(f"the model server {endpoint.name}")
        state = model_servers.state(endpoint)
        yield Finding(f"model server {endpoint.name}", state.ok, state.found, state.fix)
    if settings.oidc.issuer is not None:
        from rag_service.cli.stack import sign_in

        begins("the OpenID provider")
        for what, found in sign_in.states(settings.oidc):
            yield Finding(what, found.ok, found.found, found.fix)
    yield _text_recognition(settings.ocr.languages, settings.ocr.seconds)
    begins("Redis")
    yield _redis(addresses.redis_url(settings))
    models_missing = not all(finding.ok for finding in model_findings)
    begins("the service")
    yield _service(addresses.api_url(settings), models_missing, stack, addresses.starting(settings))
    begins("the workers")
    yield from _worker_memory(addresses.redis_url(settings))
    yield from _exactness(addresses.redis_url(settings))
    if decodes and settings.device == "cpu" and model_findings[0].ok:  # without a model it tells nobody
        workers = _workers(addresses.redis_url(settings))
        answers = sum(int(worker.get("running", 0)) for worker in workers)
        begins("which number format is fastest, which takes seconds")
        yield from fastest_format(settings.number_format, answers, blocks)


def _python() -> Finding:
    version = ".".join(map(str, sys.version_info[:3]))
    fine = sys.version_info >= (3, 11)
    return Finding("Python", fine, version, "" if fine else "Install Python 3.11 or later.")


def _packages(needed: Sequence[str]) -> Finding:
    missing = [name for name in needed if find_spec(name) is None]
    if not missing:
        return Finding("packages", True, "all installed")
    return Finding("packages", False, f"missing: {', '.join(missing)}", "Install the project again: pip install -e .")


def _settings() -> Finding:
    unknown = unknown_settings()
    if not unknown:
        return Finding("settings", True, "all known")
    return Finding("settings", True, " ".join(unknown), "Correct the names in the environment or in .env.")


def _data_dir(folder: Path) -> Finding:
    existing = folder.resolve()
    name = folder if folder.is_absolute() else f"{folder} in {Path.cwd()}"
    while not existing.exists():
        existing = existing.parent
    if not existing.is_dir() or not os.access(existing, os.W_OK | os.X_OK):
        return Finding("data folder", False, f"{name} cannot be written to", "Set RAG_DATA_DIR to another folder.")
    free = shutil.disk_usage(existing).free
    if free < NEEDED_BYTES:
        return Finding("data folder", False, f"{name}, {free / 1e9:.1f} GB free", "Free at least 2 GB, or move it.")
    return Finding("data folder", True, f"{name}, {free / 1e9:.0f} GB free")


def _model(setting: str, model: str, models_folder: Path) -> Finding:
    what = _named(setting)
    if setting == "embedding_model" and names_provider(model):
        from retriever.embedding.provider import ProviderEmbedder

        try:
            ProviderEmbedder(model).load()
        except EmbedderUnavailable as error:
            return Finding(what, False, str(error), "See docs/how-to/own-model.md.")
        return Finding(what, True, f"{model} through LangChain")
    try:
        folder = model_folder(model, models_folder)
        if what == "reranker":
            from retriever import CrossEncoderReranker

            CrossEncoderReranker(folder)
        return Finding(what, True, f"{model} in {folder}")
    except RerankerUnavailable as error:
        return Finding(what, False, str(error), "Set RAG_RERANKER to a cross-encoder.")
    except InvalidSettings:
        fix = f"Run `rag models pull {model}` (`rag up` also does this)."
        if problem := cannot_be_pulled(model, setting):
            fix = f"RAG_{setting.upper()}: {problem}"
        return Finding(what, False, f"{model} is not in {models_folder.resolve()}", fix)


def _named(setting: str) -> str:
    return "target model" if setting == "model" else setting.replace("_", " ")


def _device(device: str) -> Finding:
    if device == "cpu":  # every torch has it, and importing torch takes seconds
        return Finding("device", True, device)
    from workers.worker.devices import device_problem

    problem = device_problem(device)
    if problem is None:
        return Finding("device", True, device)
    return Finding("device", False, problem, "Set RAG_DEVICE to cpu, or to a device that exists.")


def _dtype(dtype: str, device: str, processor: Path) -> Finding:
    """Without instructions for it, half precision is many times slower on a processor than float32."""
    setting = f"{dtype} on {device}"
    if problem := dtypes.problem(dtype, device, processor):
        return Finding("number format", False, setting, f"{problem} (RAG_DTYPE, RAG_DEVICE).")
    if device != "cpu" or dtype not in {"bfloat16", "float16"}:
        return Finding("number format", True, setting)
    known = dtypes.flags(processor)
    if not known or known & (dtypes.BFLOAT16_FLAGS if dtype == "bfloat16" else dtypes.FLOAT16_FLAGS):
        return Finding("number format", True, setting)
    return Finding(
        "number format",
        True,
        f"{setting}, which is slow on this processor",
        "Set RAG_DTYPE=float32: it is faster here.",
    )


def _text_recognition(languages: str, seconds: float) -> Finding:
    """Whether scans can be read. Not having it is no fault: other documents do not need it."""
    what = "text recognition"
    if seconds <= 0:
        return Finding(what, True, "off (RAG_OCR__SECONDS=0); scans are reported as unreadable")
    try:
        known = ocr.languages()
    except RetrieverError as error:
        return Finding(what, True, str(error), "Install Tesseract again to read scans (docs/how-to/formats.md).")
    if known is None:
        fix = "To read scans, install Tesseract (docs/how-to/formats.md)."
        return Finding(what, True, "Tesseract is not installed; scans are reported as unreadable", fix)
    lacking = [language for language in languages.split("+") if language not in known]
    if lacking:
        fix = "Install Tesseract's data for them, or correct RAG_OCR__LANGUAGES; until then scans cannot be read."
        return Finding(what, True, f"Tesseract lacks {', '.join(lacking)}", fix)
    return Finding(what, True, f"Tesseract, for {languages}")


def _redis(url: str | None) -> Finding:
    from redis.exceptions import RedisError

    from workers.broker.app import make_redis
    from workers.broker.embedded_redis import EmbeddedRedisError, _binary

    try:
        if url is None:
            _binary()
            return Finding("Redis", True, "none is set; `rag up` starts one")
        make_redis(url).ping()
    except (EmbeddedRedisError, RedisError, ValueError, OSError) as error:
        fix = "Set RAG_REDIS_URL."
        if url is not None:
            fix = "Start it, or correct RAG_REDIS_URL. Without RAG_REDIS_URL `rag up` starts one."
        return Finding("Redis", False, str(error) or type(error).__name__, fix)
    return Finding("Redis", True, f"answers at {httpx.URL(url).host or url.rpartition('@')[2]}")


def _store(url: str) -> Finding:
    from retriever import open_stores

    fix = "Start it, or correct RAG_STORE_URL (docs/how-to/postgresql.md)."
    try:
        open_stores(url, Path())  # says so if packages are missing
        from retriever.postgres.database import Database

        state = Database(url).state()
    except (RetrieverError, ValueError) as error:
        return Finding("store", False, str(error), fix)
    fence = "" if state.fenced else "Use a role that is no superuser: row-level security does not hold for superusers."
    return Finding("store", True, f"PostgreSQL {state.server}, pgvector {state.pgvector} at {state.place}", fence)


def _service(url: str, models_missing: bool, stack: running.Running | None, soon: str = "") -> Finding:
    """The state of the API. A stack that nobody started is no fault.

    Args:
        models_missing: from this data folder.
        stack: that runs on it.
        soon: what to say if it is only starting.
    """
    try:
        response = httpx.get(f"{url}/readyz", timeout=5.0)
    except httpx.InvalidURL:
        return Finding("service", False, f"{url} is not an address", "Correct RAG_URL.")
    except httpx.HTTPError:
        if stack is not None:
            fix = f"`rag up` runs as process {stack.pid}: wait until it says Ready, or stop it and start it again."
            return Finding("service", False, f"nothing answers at {url}", fix)
        if soon:
            return Finding("service", True, "still starting", soon)
        return Finding("service", True, f"not running (nothing answers at {url})", "Start it with `rag up`.")
    if response.is_success:
        return Finding("service", True, f"ready at {url}", _OTHER_DATA_FOLDER if models_missing and not stack else "")
    try:
        detail = response.json()["detail"]
    except (ValueError, KeyError, TypeError):
        return Finding("service", False, f"another program answers at {url}", "Start rag-service on another --port.")
    return Finding("service", False, f"{url} is up but not ready", detail)


def _workers(url: str | None) -> list[dict[str, Any]]:
    """What the running workers report of themselves; [] while Redis is away."""
    if url is None:
        return []
    from workers.broker.app import make_app, make_redis
    from workers.sessions.queue import Queue, QueueUnavailable

    try:
        return Queue(make_app(url), make_redis(url)).workers()
    except (QueueUnavailable, ValueError, OSError):
        return []


def _exactness(url: str | None) -> Iterator[Finding]:
    """What the running workers' drafts have in common with plain decoding."""
    for worker in _workers(url):
        if exact := worker.get("exact"):
            extent = "bit by bit" if exact == "bitwise" else "up to rounding (docs/explanation.md)"
            yield Finding("exactness", True, f"{worker['name']}: drafts have plain decoding's logits, {extent}")


def _worker_memory(url: str | None) -> Iterator[Finding]:
    """The memory that neural drafters and keys and values of earlier turns take in the running workers."""
    for worker in _workers(url):
        sizes = {name.replace("_", " "): size for name, size in (worker.get("memory") or {}).items()}
        if cached := (worker.get("kv_cache") or {}).get("bytes"):
            sizes["keys and values of earlier turns"] = cached
        if sizes:
            listed = ", ".join(f"{name} {decimal(size)}" for name, size in sizes.items())
            yield Finding("worker memory", True, f"{worker['name']}: {listed}")
