"""Refusing before the answer: a model that is read decides with its first token, so nothing else is held back."""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

from retriever import Library
from tests.rag_service.conftest import WINDOW
from tests.support.fake_workers import FakeEngine, make_worker_context, running_worker
from tests.support.hash_embedder import HashEmbedder
from workers.broker.embedded_redis import EmbeddedRedis
from workers.support.calibration import ENGINE, Calibration, Logistic
from workers.support.readout import Readout
from workers.tokens.tokenizer import Tokens
from workers.worker import supporter as supporter_module
from workers.worker.supporter import Supporter

STATED = "The quick brown fox jumps over the lazy dog every morning before breakfast."
QUESTION = "What does the quick brown fox jump over?"
REFUSAL = "The documents do not say."
ASKED = {"question": QUESTION, "collection": "animals", "seed": 7, "abstain": "refuse", "stream": True}


@dataclass
class Stage:
    """What the engine says, and what its state says of the passages."""

    text: str = STATED
    state: float = 3.0
    go_on: threading.Event = field(default_factory=threading.Event)
    """The answer's second step waits for it."""
    waited_in_vain: bool = False


@pytest.fixture(scope="module")
def working(tokens: Tokens, data_dir: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Stage, str]]:
    stage = Stage()

    def before_step(sequence: Any) -> None:
        if sequence.tokens and not stage.waited_in_vain:
            stage.waited_in_vain = not stage.go_on.wait(20)

    engine = FakeEngine(
        tokens,
        lambda prompt: tokens.encode_content(stage.text).ids,
        tokens_per_step=1,
        window=WINDOW,
        before_step=before_step,
        state=lambda prompt: stage.state,
    )
    with EmbeddedRedis(tmp_path_factory.mktemp("redis")) as server, pytest.MonkeyPatch.context() as patch:
        readout = Readout(0, np.ones(1, dtype=np.float32), 0.0)
        patch.setattr(supporter_module, "shipped", lambda: {"fake": readout})
        library = Library(data_dir, HashEmbedder())
        place = make_worker_context(server.url, tokens, engine, library, data_dir / "uploads", kv_cache_bytes=2**20)
        evidence = Logistic(0.0, {"evidence": 2.0}, {"evidence": 0.4}, {"evidence": 0.2})
        read = Logistic(0.0, {"readout": 1.0}, {"readout": 0.0}, {"readout": 1.0})
        place.supporter = Supporter(
            tokens, "fake", "float32", Calibration("fake", "float32", ENGINE, "", evidence, read, 0.5, 0, ["en"])
        )
        with running_worker(server.url, place, info={"model": "fake", "tokenizer": tokens.hash}):
            yield stage, server.url


@pytest.fixture
def stage(working: tuple[Stage, str]) -> Stage:
    stage = working[0]
    stage.text, stage.state, stage.waited_in_vain = STATED, 3.0, False
    stage.go_on.set()
    return stage


@pytest.fixture
async def client(
    stage: Stage, working: tuple[Stage, str], data_dir: Path, make_client: Callable[..., Any]
) -> AsyncIterator[httpx.AsyncClient]:
    async with make_client(working[1], data_dir) as client:
        yield client


async def ask(client: httpx.AsyncClient, parse: Callable[[str], Any]) -> tuple[list[str], dict[str, Any]]:
    """The texts of the events of a streamed answer, and the last event."""
    events = parse((await client.post("/v1/query", json=ASKED)).text)
    return [data["text"] for _, name, data in events if name == "token"], events[-1][2]


async def test_an_answer_that_is_not_refused_comes_as_it_is_written(
    client: httpx.AsyncClient, parse: Callable[[str], Any]
) -> None:
    texts, done = await ask(client, parse)
    assert "".join(texts) == STATED
    assert len(texts) > 5
    assert done["abstained"] is None
    assert done["signals"]["readout"] == pytest.approx(3.0)


async def test_a_refused_answer_is_not_written_at_all(
    client: httpx.AsyncClient, stage: Stage, parse: Callable[[str], Any]
) -> None:
    stage.state = -3.0
    stage.go_on.clear()
    texts, done = await ask(client, parse)
    assert not stage.waited_in_vain, "the refusal waited for the answer"
    stage.go_on.set()
    assert "".join(texts) == REFUSAL
    assert done["abstained"] == "refused"
    assert done["support"] is None
    assert done["answerable"] == pytest.approx(0.05, abs=0.005)


async def test_what_may_still_be_the_question_is_held_back(
    client: httpx.AsyncClient, stage: Stage, parse: Callable[[str], Any]
) -> None:
    stage.text = QUESTION
    texts, done = await ask(client, parse)
    assert "".join(texts) == REFUSAL
    assert done["abstained"] == "refused"
    stage.text = f"{QUESTION} The lazy dog."
    texts, done = await ask(client, parse)
    assert "".join(texts) == stage.text
    assert texts[0].startswith(QUESTION[:-1])
    assert done["abstained"] is None
