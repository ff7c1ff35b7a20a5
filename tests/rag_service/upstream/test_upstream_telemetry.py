"""What is shown of answers that a model server decoded: time and tokens, and no passes saved."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from rag_service.cli.answers import decoding_lines
from tests.rag_service.conftest import World
from tests.rag_service.upstream.test_upstream_service import SERVERS
from tests.support.command_line import rag


@pytest.fixture
def upstream_url(world: World, serve: Callable[..., Any]) -> Any:
    with serve(world, **SERVERS) as url:
        yield url


def test_verify_says_in_one_sentence_why_it_does_not_apply(upstream_url: str, world: World, own_folder: None) -> None:
    result = rag("verify", "What jumps?", "-c", "animals", "--url", upstream_url)
    assert result.exit_code == 2
    told = " ".join(result.stderr.split())
    assert told.count(". ") == 0
    assert "There is nothing to compare: small runs on a model server" in told
    assert (result.stdout, world.stage.prompts) == ("", [])


@pytest.mark.decoder_only("it names servers that the scripted worker does not have")
async def test_token_events_count_no_passes(world: World, make_client: Callable[..., Any], parse: Any) -> None:
    body = {"question": "What jumps?", "collection": "animals", "stream": True}
    async with make_client(world.redis_url, world.data_dir, **SERVERS) as client:
        events = parse((await client.post("/v1/query", json=body)).text)
        tokens = [data for _, name, data in events if name == "token"]
        assert tokens
        assert all("tokens" in data and "steps" not in data for data in tokens)
    async with make_client(world.redis_url, world.data_dir) as client:
        events = parse((await client.post("/v1/query", json=body)).text)
        assert all("steps" in data for _, name, data in events if name == "token")


@pytest.mark.parametrize(("usage", "about"), [("reported", ""), ("estimated", "about ")])
def test_result_lines_have_time_and_tokens(usage: str, about: str) -> None:
    answer = {
        "session_id": "s",
        "answer_id": "a",
        "base": None,
        "finish_reason": "stop",
        "usage": {"completion_tokens": 42},
        "timings": {"first_token": 310.0, "total": 2345.0},
        "speculation": {"engine": "upstream", "upstream": "large", "model": "big", "usage": usage},
    }
    assert decoding_lines(answer) == [
        f"{about}42 tokens · 0.3 s to the first · 2.3 s · big at the model server large",
    ]
    del answer["timings"]["first_token"]  # type: ignore[attr-defined]
    assert decoding_lines(answer)[0] == f"{about}42 tokens · 2.3 s · big at the model server large"
