"""The stack that a benchmark measures. Its worker is started anew when reuse is turned on or off.

Knows processes and settings; knows no benchmark. One worker runs at a time, so that the model is in memory once.
"""

from __future__ import annotations

import contextlib
import socket
import time
from collections.abc import Callable
from pathlib import Path
from typing import Self

from decoder.recording.prompts import BenchError
from rag_service.access import local_key
from rag_service.client import RagClient
from rag_service.settings import Settings
from rag_service.stack.process import Child, is_ready
from workers.broker import keys
from workers.broker.app import make_redis
from workers.broker.embedded_redis import EmbeddedRedis
from workers.sessions.token_log import read_log

POLL_S = 0.1
DRAIN_S = 12.0
QUESTION_CHARS = 200_000
"""Longest question; long prompts are sent as questions."""
TENANT = "default"


class Stack:
    """A private Redis, the API on a free port and one worker, in processes of their own. A context manager.

    Args:
        folder: for its data and logs.
        settings: the model and how it runs; Redis, data folder, address and key are the stack's own.
        say: prints progress.
    """

    def __init__(self, folder: Path, settings: Settings, say: Callable[[str], None]) -> None:
        self._folder = folder
        self._settings = settings
        self._say = say
        self._closing = contextlib.ExitStack()
        self._worker: Child | None = None
        self._reuse: bool | None = None
        self._started = 0

    def __enter__(self) -> Self:
        with contextlib.ExitStack() as stack:
            url = stack.enter_context(EmbeddedRedis(self._folder / "redis")).url
            self._redis = make_redis(url)
            stack.callback(self._redis.close)
            bound = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
            bound.set_inheritable(True)
            key = local_key.ensure(self._folder)
            self._environment = {
                "RAG_REDIS_URL": url,
                "RAG_DATA_DIR": str(self._folder),
                "RAG_MODELS_DIR": str(self._settings.models_folder.resolve()),
                "RAG_MODEL": self._settings.model,
                "RAG_LIMITS__QUESTION_CHARS": str(QUESTION_CHARS),
                "RAG_RETRIEVAL__REWRITE_TIMEOUT": "45",
            }
            arguments = ["serve", "--fd", str(bound.fileno())]
            self._api = self._child("API", arguments, self._environment, [bound.fileno()])
            self._api.start()
            stack.callback(self._api.stop, 5.0)
            stack.callback(self._stop_worker)
            self._client = stack.enter_context(RagClient(f"http://127.0.0.1:{bound.getsockname()[1]}", key))
            self._closing = stack.pop_all()
        return self

    def __exit__(self, *exception: object) -> None:
        self._closing.close()

    def client(self, reuse: bool) -> RagClient:
        """A client of the stack, whose worker keeps keys and values of earlier turns if `reuse`.

        Raises BenchError if the stack does not start.
        """
        if reuse != self._reuse:
            self._stop_worker()
            self._start_worker(reuse)
        return self._client

    def prompt_ids(self, session_id: str, tokens: int) -> list[int]:
        """The first tokens of a session; [] if they are not stored."""
        log = read_log(self._redis, TENANT, session_id)
        return [] if log is None else list(log.ids[:tokens])

    def _start_worker(self, reuse: bool) -> None:
        self._started += 1
        name = f"bench-{self._started}"
        self._say(f"starting a worker {'with' if reuse else 'without'} reuse of earlier turns")
        size = self._settings.kv_cache_bytes if reuse else 0
        environment = {**self._environment, "RAG_KV_CACHE_BYTES": str(size)}
        self._worker = self._child(name, ["worker", "--name", name], environment)
        self._worker.start()
        self._reuse = reuse
        while self._redis.zscore(keys.WORKERS, name) is None or not is_ready(self._client.address.base_url):
            for child in (self._worker, self._api):
                child.look()
                if child.deaths:
                    raise BenchError(f"the {child.name} does not start; the end of its log:\n{child.last_words()}")
            time.sleep(POLL_S)
        warm_up = self._client.query("Hello.", max_tokens=8, retrieval={"mode": "none"})
        self._client.erase_session(warm_up.session_id)

    def _stop_worker(self) -> None:
        if self._worker is not None:
            self._worker.stop(DRAIN_S)
        self._worker = self._reuse = None

    def _child(
        self, name: str, arguments: list[str], environment: dict[str, str], keep: list[int] | None = None
    ) -> Child:
        return Child(name, arguments, environment, self._folder / "logs" / f"{name}.log", keep or [])
