"""`rag up`: a private Redis, a worker and the API, brought up together and stopped together.

Starts Redis (unless RAG_REDIS_URL names one), pulls missing models, starts the processes, waits until queries can be
answered, then watches over all of them: what dies is started again. Ends on Ctrl-C, SIGTERM or SIGHUP, and where the
private Redis dies again and again.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import stat
import subprocess
import sys
import time
from typing import IO, TYPE_CHECKING, Annotated, Any

import httpx
import typer

from rag_service.access import local_key
from rag_service.answering.models import model_folder
from rag_service.cli.console import CliError, err, out
from rag_service.cli.stack import running
from rag_service.cli.stack.connect import local_key_of
from rag_service.cli.stack.data_folder import keep_private, only_one
from rag_service.cli.stack.in_force import settings_in_force
from rag_service.cli.stack.serve import bind
from rag_service.errors import InvalidSettings
from rag_service.settings import Settings
from rag_service.stack.process import Child
from retriever.embedder import names_provider

if TYPE_CHECKING:
    from workers.broker.embedded_redis import EmbeddedRedis

LOOK_S = 0.2
GIVE_UP = 3
"""Deaths of one process before the stack was ever ready after which `rag up` ends."""
DRAIN_S = 12.0
"""Seconds that a worker gets to hand its answers back."""


def up(
    host: Annotated[str | None, typer.Option(metavar="ADDRESS", help="Address to listen on.")] = None,
    port: Annotated[
        int | None, typer.Option(metavar="N", help="Port to listen on; 0 takes a free one.", min=0, max=65535)
    ] = None,
) -> None:
    """Start everything: a private Redis, a worker and the API. Ctrl-C stops all of it."""
    given = {"host": host, "port": port}
    settings = settings_in_force(**{name: value for name, value in given.items() if value is not None})
    stop = _Stop()
    keep_private(settings.data_dir)
    with contextlib.ExitStack() as stack:
        stack.enter_context(only_one(settings.data_dir))
        local_key_of(settings)
        bound = stack.enter_context(bind(settings.host, settings.port))
        _pull(settings, stop)
        _run(settings, bound, stack, stop)


class _Stop:
    """Set by the first signal; the second one ends the process at once."""

    def __init__(self) -> None:
        self.asked = False
        for name in ("SIGINT", "SIGTERM", "SIGHUP"):
            signal.signal(getattr(signal, name), self._ask)

    def _ask(self, number: int, frame: Any) -> None:
        if self.asked:
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)
        self.asked = True

    def check(self) -> None:
        if self.asked:
            raise typer.Exit(0)


def _run(settings: Settings, bound: socket.socket, stack: contextlib.ExitStack, stop: _Stop) -> None:
    screen = err()
    data_dir = settings.data_dir.resolve()
    redis, redis_url = _redis(settings, stack)
    environment = {
        "RAG_REDIS_URL": redis_url,
        "RAG_HOST": settings.host,
        "RAG_DATA_DIR": str(data_dir),
        "RAG_MODELS_DIR": str(settings.models_folder.resolve()),
    }
    worker = Child("worker", ["worker"], environment, data_dir / "logs" / "worker.log")
    api = Child(
        "API", ["serve", "--fd", str(bound.fileno())], environment, data_dir / "logs" / "api.log", [bound.fileno()]
    )
    stack.callback(worker.stop, DRAIN_S)
    stack.callback(api.stop, 5.0)
    url = _url(settings.host, bound.getsockname()[1])
    watch = _Watch(redis, redis_url, worker, api)
    for child in (worker, api):
        child.start()
    if not screen.is_terminal:  # where nothing can turn, say it once
        screen.print("Loading the models …")
    with screen.status("Loading the models …"):
        while not _ready(url):
            stop.check()
            watch.look()
            for child in (worker, api):
                if child.refused or child.deaths >= GIVE_UP:
                    raise CliError(f"The {child.name} does not start. The end of {child.log}:\n{child.last_words()}")
            time.sleep(LOOK_S)
    running.write(data_dir, running.Running(os.getpid(), url, redis_url))
    stack.callback(running.run_file(data_dir).unlink, missing_ok=True)
    _welcome(settings, url)
    while not stop.asked:
        watch.look()
        time.sleep(LOOK_S)
    screen.print("Stopping …")


def _redis(settings: Settings, stack: contextlib.ExitStack) -> tuple[EmbeddedRedis | None, str]:
    """The private Redis, started, where none is set; and the address of the one in use."""
    if settings.redis_url is not None:
        return None, running.with_password(settings)
    from workers.broker.embedded_redis import EmbeddedRedis, EmbeddedRedisError
    from workers.worker.heartbeat import forget_workers

    try:
        redis = stack.enter_context(EmbeddedRedis(settings.data_dir.resolve() / "redis"))
    except EmbeddedRedisError as error:
        raise CliError(str(error)) from None
    forget_workers(redis.url)  # those of a stack that was killed: nobody else has this server
    return redis, redis.url


class _Watch:
    """Starts again what died, and says so."""

    def __init__(self, redis: EmbeddedRedis | None, redis_url: str, worker: Child, api: Child) -> None:
        self._redis = redis
        self._redis_url = redis_url
        self._worker = worker
        self._api = api

    def look(self) -> None:
        """Raises CliError where Redis cannot be kept alive."""
        if self._redis is not None:
            from workers.broker.embedded_redis import EmbeddedRedisError

            try:
                _tell(self._redis.look())
            except EmbeddedRedisError as error:
                raise CliError(f"Everything stops, since {error}.") from None
        pid = self._worker.pid
        if message := self._worker.look():
            from workers.worker.heartbeat import default_name, forget_workers

            _tell(message)
            forget_workers(self._redis_url, default_name(pid))
        _tell(self._api.look())


def _welcome(settings: Settings, url: str) -> None:
    screen = out()
    screen.print(f"Ready at {url}  (the page; API: {url}/docs)", style="bold green")
    if settings.model == type(settings).model_fields["model"].default:
        screen.print(
            f"{settings.model} is a small demo model; set RAG_MODEL to a better one for real use.", style="dim"
        )
    _sign_in(settings, url)
    screen.print("Next, in another terminal:")
    where = "" if settings.data_dir == type(settings).model_fields["data_dir"].default else f" --url {url}"
    screen.print(f"  rag ingest PATH…{where}")
    screen.print(f'  rag ask "…"{where}')
    screen.print("Ctrl-C stops it.")


def _sign_in(settings: Settings, url: str) -> None:
    """How to get in. The key is not written where others can read it."""
    screen = out()
    if settings.open_without_key:
        screen.print(
            "RAG_OPEN_WITHOUT_KEY is set: anyone who reaches this address may use the service.", style="yellow"
        )
    elif _read_by_others(screen.file):
        screen.print(f"The page asks for a key: {local_key.key_file(settings.data_dir)} holds yours.", soft_wrap=True)
    else:
        screen.print("Open this address to use the page; it holds your key, so show it to nobody:")
        key = local_key.ensure(settings.data_dir)
        screen.print(f"  {url}/#key={key}", highlight=False, soft_wrap=True)


def _read_by_others(file: IO[str]) -> bool:
    """Whether output goes to a file that its group or everyone may read."""
    try:
        mode = os.fstat(file.fileno()).st_mode
    except (OSError, ValueError):  # no file of the system: a test's
        return False
    return stat.S_ISREG(mode) and bool(mode & 0o044)


def _tell(message: str | None) -> None:
    if message:
        err().print(message, style="yellow")


def _ready(url: str) -> bool:
    try:
        return httpx.get(f"{url}/readyz", timeout=5.0).is_success
    except httpx.HTTPError:
        return False


def _url(host: str, port: int) -> str:
    reached = {"0.0.0.0": "127.0.0.1", "": "127.0.0.1", "::": "::1"}.get(host, host)
    return f"http://[{reached}]:{port}" if ":" in reached else f"http://{reached}:{port}"


def _pull(settings: Settings, stop: _Stop) -> None:
    """Pull the models that are not there, in a process of its own: this one then stays small."""
    missing = []
    for variable in ("model", "embedding_model", "draft_model"):
        model = getattr(settings, variable)
        try:
            if model is not None and not names_provider(model):
                model_folder(model, settings.models_folder)
        except InvalidSettings:
            if model.startswith(("/", ".", "~")) or model.count("/") > 1:
                raise InvalidSettings(
                    f"RAG_{variable.upper()}: {model} is no folder with a model (config.json, tokenizer.json and "
                    "*.safetensors); correct it, or give a name from `rag models list` or a hub id (owner/name)."
                ) from None
            missing.append(model)
    if missing:
        err().print(f"Pulling {' and '.join(missing)}, this once …")
        command = [sys.executable, "-m", "rag_service.cli", "models", "pull", *missing]
        environment = {**os.environ, "RAG_MODELS_DIR": str(settings.models_folder)}
        failed = subprocess.run(command, env=environment, check=False).returncode
        stop.check()
        if failed < 0:
            raise CliError(f"Pulling was ended by signal {-failed}; start again.")
        if failed:  # and it has said why
            raise typer.Exit(failed)
