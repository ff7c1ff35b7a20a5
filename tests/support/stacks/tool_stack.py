"""A Redis and a worker whose model has a chat template with tools, for tests that serve the API over them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from decoder import Engine
from retriever import Library
from tests.support.fake_workers import FakeEngine, make_worker_context, running_worker, save_tokenizer
from tests.support.hash_embedder import HashEmbedder
from tests.support.tiny_models import tiny_target
from workers.broker import keys
from workers.broker.embedded_redis import EmbeddedRedis
from workers.tokens.tokenizer import Tokens


@contextmanager
def tool_stack(
    make_folder: Callable[[str], Path], data_dir: Path, make_engine: Callable[[Tokens], Any], window: int
) -> Iterator[SimpleNamespace]:
    """What the fixture `world` of such tests is: `redis_url`, `data_dir`, `tokens`, `window`.

    Args:
        make_folder: makes an empty folder.
        window: of the model, as the API knows it.
    """
    tokens = Tokens.load(save_tokenizer(make_folder("tokenizer"), "tools"))
    library = Library(data_dir, HashEmbedder())
    with EmbeddedRedis(make_folder("redis")) as server:
        place = make_worker_context(server.url, tokens, make_engine(tokens), library, data_dir / "uploads")
        with running_worker(server.url, place, info={"model": "fake", "tokenizer": tokens.hash}):
            while not place.client.exists(keys.WORKERS):
                time.sleep(0.01)
            yield SimpleNamespace(redis_url=server.url, data_dir=data_dir, tokens=tokens, window=window)


def speaking_engine(stage: SimpleNamespace) -> Callable[[Tokens], FakeEngine]:
    """An engine that says `stage.text`, and adds to `stage.prompts` what it was asked."""

    def make(tokens: Tokens) -> FakeEngine:
        def script(prompt: Any) -> list[int]:
            stage.prompts.append(list(prompt))
            return tokens.encode_content(stage.text).ids

        return FakeEngine(tokens, script, window=2000)

    return make


def tiny_engine(tokens: Tokens) -> Engine:
    """A random model, whose forced calls are held to their grammar."""
    return Engine(tiny_target(vocab_size=tokens.vocab_size, window=2400, memory=0.05), "auto", tokens.eos_ids)
