"""What sessions hold: reported by the API and on the command line, capped by the settings, counted in the metrics."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import httpx
import pytest
from typer.testing import CliRunner

from rag_service.cli import app

QUESTION = {"question": "What does the fox jump over?", "collection": "animals", "seed": 7}


@pytest.mark.decoder_only("it counts the model's end token")
async def test_a_session_tells_what_it_takes(client: httpx.AsyncClient) -> None:
    first = (await client.post("/v1/query", json=QUESTION)).json()
    assert first["usage"]["prompt_tokens_details"] == {"cached_tokens": 0}
    url = f"/v1/sessions/{first['session_id']}"
    memory = (await client.get(url)).json()["memory"]
    ends = first["usage"]["total_tokens"]
    assert memory["tokens"] == ends - 1, "the end token is no part of the conversation"
    assert memory["epoch"] == 1
    assert min(memory["ids_bytes"], memory["turns_bytes"], memory["answers_bytes"]) > 0
    body = {**QUESTION, "question": "When?", "session_id": first["session_id"]}
    second = (await client.post("/v1/query", json=body)).json()
    grown = (await client.get(url)).json()["memory"]
    assert grown["tokens"] == second["usage"]["total_tokens"] - 1
    assert grown["epoch"] == 1, "the prompt only grew"
    assert grown["ids_bytes"] > memory["ids_bytes"]


async def test_a_full_session_takes_no_more_turns(world: Any, make_client: Callable[..., Any]) -> None:
    answers = {"session_tokens": 256, "session_ttl": 1000}
    async with make_client(world.redis_url, world.data_dir, answers=answers) as client:
        session = (await client.post("/v1/query", json=QUESTION)).json()["session_id"]
        while client.pipeline.sessions.size("default", session) < 256:
            body = {**QUESTION, "question": "And what else? " * 20, "session_id": session}
            assert (await client.post("/v1/query", json=body)).status_code == 200
        turns = (await client.get(f"/v1/sessions/{session}")).json()["turns"]
        for call in (
            client.post("/v1/query", json={**QUESTION, "session_id": session}),
            client.post(f"/v1/answers/{turns[-1]['answer_id']}/edits", json={"instruction": "Shorter."}),
        ):
            response = await call
            problem = response.json()
            assert (response.status_code, problem["code"]) == (409, "session_full")
            assert problem["tokens"] >= problem["most_tokens"] == 256
        assert (await client.post("/v1/query", json=QUESTION)).status_code == 200, "another session has room"
        assert len((await client.get(f"/v1/sessions/{session}")).json()["turns"]) == len(turns)


async def test_metrics_tell_what_workers_keep(client: httpx.AsyncClient) -> None:
    text = (await client.get("/metrics")).text
    for line in (
        "# TYPE rag_kv_cache_bytes gauge",
        'rag_kv_cache_bytes{worker="fake"} 0.0',
        'rag_prompt_tokens_reused_total{worker="fake"} 0.0',
    ):
        assert line in text.splitlines()
    asked = next(line for line in text.splitlines() if line.startswith("rag_prompt_tokens_total{"))
    assert float(asked.split()[-1]) >= 0


@pytest.mark.decoder_only("it counts the model's end token")
@pytest.mark.usefixtures("own_folder")
def test_sessions_on_the_command_line(api_url: str) -> None:
    def rag(*arguments: str) -> str:
        result = CliRunner().invoke(app, [*arguments, "--url", api_url])
        assert result.exit_code == 0, result.output
        return result.stdout

    answer = json.loads(rag("ask", "Who jumps?", "-c", "animals", "--json"))
    session = answer["session_id"]
    (line,) = [line for line in rag("sessions", "list").splitlines() if session in line]
    assert line.endswith("1 turn  Who jumps?")
    shown = rag("sessions", "show", session)
    assert "1. Who jumps?" in shown
    assert answer["answer"] in shown.replace("\n", " ")
    tokens = answer["usage"]["total_tokens"] - 1
    assert f"{tokens} tokens in" in shown
    assert json.loads(rag("sessions", "show", session, "--json"))["memory"]["tokens"] == tokens
    missing = CliRunner().invoke(app, ["sessions", "show", "nothing", "--url", api_url])
    assert missing.exit_code == 1
    assert "There is no session" in missing.stderr
    assert "`rag sessions list` lists all sessions" in missing.stderr
