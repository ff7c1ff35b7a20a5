"""`rag up`: a private Redis, a worker and the API, started and stopped together.

Pulls missing models, starts Redis (unless RAG_REDIS_URL names one) and the processes, waits until queries can be
answered, then restarts every process that ends. Ends on Ctrl-C, SIGTERM or SIGHUP, and if the private Redis dies again
and again.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import signal
import socket
import stat
import subprocess
import sys
import time
from typing import IO, TYPE_CHECKING, Any

import typer

from rag_service.access import local_key, running
from rag_service.answering.models import model_folder, models_of
from rag_service.answering.served_model import described
from rag_service.cli.console import CliError, err, out
from rag_service.cli.model_advice import cannot_be_pulled
from rag_service.cli.options import Host, Port, without_none
from rag_service.cli.stack import addresses
from rag_service.cli.stack.connect import local_key_of
from rag_service.cli.stack.data_folder import keep_private, missing, only_one, removed_on_failure
from rag_service.cli.stack.in_force import settings_in_force
from rag_service.cli.stack.serve import bind
from rag_service.client.transport import DEFAULT_URL
from rag_service.errors import InvalidSettings
from rag_service.settings import Settings
from rag_service.stack.process import Child, is_ready
from retriever.embedding.provider_name import names_provider

if TYPE_CHECKING:
    from rich.console import Console

    from workers.broker.embedded_redis import EmbeddedRedis

POLL_S = 0.2
STARTING = "starting the processes"
MAX_DEATHS = 3
"""`rag up` ends if a process ends this often before the stack was ever ready."""
DRAIN_S = 12.0
"""Seconds that a worker gets to return its unfinished answers to the queue."""


def up(
    host: Host = None,
    port: Port = None,
) -> None:
    """Start everything: a private Redis, a worker and the API. Ctrl-C stops all of it."""
    settings = settings_in_force(**without_none(host=host, port=port))
    stop = _Stop()
    made = missing(settings.data_dir)
    keep_private(settings.data_dir)
    with contextlib.ExitStack() as stack:
        stack.enter_context(only_one(settings.data_dir))
        with removed_on_failure(settings.data_dir, made):
            local_key_of(settings)
            bound = stack.enter_context(bind(settings.host, settings.port))
            _pull(settings, stop)
        _run(settings, bound, stack, stop)


class _Stop:
    """Set by the first signal; the second one ends the process at once."""

    def __init__(self) -> None:
        self.requested = False
        for name in ("SIGINT", "SIGTERM", "SIGHUP"):
            signal.signal(getattr(signal, name), self._handle)

    def _handle(self, number: int, frame: Any) -> None:
        if self.requested:
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)
        self.requested = True

    def check(self) -> None:
        if self.requested:
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
    steps = _Steps(screen)
    with screen.status("") as status:  # shown on terminals only
        while not is_ready(url):
            status.update(steps.look(worker.steps()))
            stop.check()
            watch.look()
            for child in (worker, api):
                if child.refused or child.deaths >= MAX_DEATHS:
                    raise CliError(f"The {child.name} does not start. The end of {child.log}:\n{child.last_words()}")
            time.sleep(POLL_S)
    running.write(data_dir, running.Running(os.getpid(), url, redis_url, environment["RAG_MODELS_DIR"]))
    stack.callback(running.run_file(data_dir).unlink, missing_ok=True)
    _welcome(settings, url)
    while not stop.requested:
        watch.look()
        time.sleep(POLL_S)
    screen.print("Stopping …")


class _Steps:
    """What the worker does until it is ready: each step a line, the present one with its time so far."""

    def __init__(self, screen: Console) -> None:
        self._screen = screen
        self._step = ""
        self._since = time.monotonic()

    def look(self, steps: list[str]) -> str:
        """The present step as a line. New ones are printed where no line can be shown in their place.

        Args:
            steps: the last ones so far.
        """
        known = len(steps) - steps[::-1].index(self._step) if self._step in steps else 0
        for step in steps[known:] or ([] if self._step else [STARTING]):
            self._begin(step)
        return f"{self._line} {self._seconds:.0f} s"

    def _begin(self, step: str) -> None:
        if self._step and self._screen.is_terminal:
            self._screen.print(f"{self._line} {self._seconds:.0f} s", style="dim")
        self._step, self._since = step, time.monotonic()
        if not self._screen.is_terminal:
            self._screen.print(self._line)

    @property
    def _line(self) -> str:
        return f"{self._step[:1].upper()}{self._step[1:]} …"

    @property
    def _seconds(self) -> float:
        return time.monotonic() - self._since


def _redis(settings: Settings, stack: contextlib.ExitStack) -> tuple[EmbeddedRedis | None, str]:
    """The private Redis, started unless a Redis is configured, and the address of the Redis in use."""
    if settings.redis_url is not None:
        return None, addresses.with_password(settings)
    from workers.broker.embedded_redis import EmbeddedRedis, EmbeddedRedisError
    from workers.worker.heartbeat import forget_workers

    try:
        redis = stack.enter_context(EmbeddedRedis(settings.data_dir.resolve() / "redis"))
    except EmbeddedRedisError as error:
        raise CliError(str(error)) from None
    forget_workers(redis.url)  # those of a stack that was killed; this server has no others
    return redis, redis.url


class _Watch:
    """Restarts what died, and prints a message."""

    def __init__(self, redis: EmbeddedRedis | None, redis_url: str, worker: Child, api: Child) -> None:
        self._redis = redis
        self._redis_url = redis_url
        self._worker = worker
        self._api = api

    def look(self) -> None:
        """Raises CliError if Redis keeps dying."""
        if self._redis is not None:
            from workers.broker.embedded_redis import EmbeddedRedisError

            try:
                _warn(self._redis.look())
            except EmbeddedRedisError as error:
                raise CliError(f"Everything stops, because {error}.") from None
        pid = self._worker.pid
        if message := self._worker.look():
            from workers.worker.heartbeat import default_name, forget_workers

            _warn(message)
            forget_workers(self._redis_url, default_name(pid))
        _warn(self._api.look())


def _welcome(settings: Settings, url: str) -> None:
    screen = out()
    screen.print(f"Ready at {url}  (the page; API: {url}/docs)", style="bold green")
    model = described(settings)
    screen.print(f"Model: {model['name']}" + (f", {model['note']}" if model["toy"] else ""), style="dim")
    for endpoint in settings.endpoints:
        screen.print(f"Model server {endpoint.name}: {endpoint.model} at {endpoint.url}", style="dim")
    if model["toy"]:
        screen.print("For real use, set RAG_MODEL to another one: `rag models list`.", style="yellow")
    _sign_in(settings, url)
    if url != DEFAULT_URL:
        screen.print(f"Programs in other folders need RAG_URL={url}", style="dim")
    screen.print("Next, in another terminal:")
    before, after = _reaching(settings, url)
    screen.print(f"  {before}rag ingest PATH…{after}")
    screen.print(f'  {before}rag ask "…"{after}')
    screen.print("Ctrl-C stops it.")


def _reaching(settings: Settings, url: str) -> tuple[str, str]:
    """What a command in another terminal needs before and after it to find this stack and its key."""
    after = f" --url {url}" if settings.url not in (None, url) else ""  # else the data folder has the address
    if settings.data_dir == type(settings).model_fields["data_dir"].default:
        return "", after
    return f"RAG_DATA_DIR={shlex.quote(str(settings.data_dir.resolve()))} ", after


def _sign_in(settings: Settings, url: str) -> None:
    """Print how to sign in. The key is not printed to a file that others can read."""
    screen = out()
    if settings.open_without_key:
        screen.print(
            "RAG_OPEN_WITHOUT_KEY is set: anyone who can reach this address can use the service.", style="yellow"
        )
    elif _read_by_others(screen.file):
        screen.print(f"The page asks for a key. Yours is in {local_key.key_file(settings.data_dir)}.")
    else:
        screen.print("Open this address to use the page. It contains your key, so show it to nobody:")
        key = local_key.ensure(settings.data_dir)
        screen.print(f"  {url}/#key={key}")


def _read_by_others(file: IO[str]) -> bool:
    """Whether output goes to a file that its group or everyone can read."""
    try:
        mode = os.fstat(file.fileno()).st_mode
    except (OSError, ValueError):  # not a file of the system
        return False
    return stat.S_ISREG(mode) and bool(mode & 0o044)


def _warn(message: str | None) -> None:
    if message:
        err().print(message, style="yellow")


def _url(host: str, port: int) -> str:
    reachable = {"0.0.0.0": "127.0.0.1", "": "127.0.0.1", "::": "::1"}.get(host, host)
    return f"http://[{reachable}]:{port}" if ":" in reachable else f"http://{reachable}:{port}"


def _pull(settings: Settings, stop: _Stop) -> None:
    """Pull missing models in another process, so that this one stays small."""
    missing = []
    for variable in models_of(settings):
        model = getattr(settings, variable)
        try:
            if model is not None and not names_provider(model):
                model_folder(model, settings.models_folder)
        except InvalidSettings:
            if problem := cannot_be_pulled(model, variable):
                raise InvalidSettings(f"RAG_{variable.upper()}: {problem}") from None
            missing.append(model)
    if missing:
        err().print(f"Pulling {' and '.join(missing)}, this once …")
        usual = Settings.model_fields["data_dir"].default / "models"
        if all((usual / model).is_dir() for model in missing):
            err().print(f"(They are in {usual}, too: RAG_MODELS_DIR={usual} uses those instead.)")
        command = [sys.executable, "-m", "rag_service.cli", "models", "pull", *missing]
        environment = {**os.environ, "RAG_MODELS_DIR": str(settings.models_folder)}
        failed = subprocess.run(command, env=environment, check=False).returncode
        stop.check()
        if failed < 0:
            raise CliError(f"Pulling was stopped by signal {-failed}. Start again.")
        if failed:  # it has printed the reason
            raise typer.Exit(failed)
