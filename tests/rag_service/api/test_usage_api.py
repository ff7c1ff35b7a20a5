"""What answers cost: over HTTP for a tenant's admins, at the command line for the operator, and as metrics."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from tests.support.api_keys import add_key
from tests.support.command_line import rag
from workers.broker import keys
from workers.sessions.costs import today

TENANTS = ("spenders", "savers")


@pytest.fixture
async def guarded(world: Any, make_client: Any) -> AsyncIterator[httpx.AsyncClient]:
    """The API with keys required; two tenants, of which one asked twice and the other once."""
    async with make_client(world.redis_url, world.data_dir, open_without_key=False) as client:
        for tenant in TENANTS:
            client.pipeline.redis.delete(keys.usage(tenant, today().isoformat()))
        for tenant in ("spenders", "savers", "spenders"):
            asked = {"question": "What jumps?"}
            answer = await client.post("/v1/query", json=asked, headers=bearer(client, tenant, "reader"))
            assert answer.status_code == 200, answer.text
        yield client
        client.pipeline.redis.delete(keys.API_KEYS)


def bearer(client: Any, tenant: str, role: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {add_key(client.pipeline.api_keys, 'test', tenant, role=role)[1]}"}


async def test_an_admin_sees_what_the_own_tenant_spent(guarded: httpx.AsyncClient, world: Any) -> None:
    spent = {}
    for tenant in TENANTS:
        told = (await guarded.get("/v1/usage", headers=bearer(guarded, tenant, "admin"))).json()
        assert told["tenant"] == tenant
        (row,) = told["usage"]
        assert row["day"] == today().isoformat()
        assert (row["engine"], row["upstream"]) == (
            ("upstream", "default") if world.engine == "upstream" else ("decoder", None)
        )
        spent[tenant] = row
    for kind in ("prompt_tokens", "completion_tokens"):
        assert spent["spenders"][kind] == 2 * spent["savers"][kind] > 0


async def test_nobody_else_sees_it(guarded: httpx.AsyncClient) -> None:
    for role in ("reader", "editor"):
        response = await guarded.get("/v1/usage", headers=bearer(guarded, "savers", role))
        assert (response.status_code, response.json()["code"]) == (403, "forbidden")


@pytest.mark.parametrize("days", ["0", "3661", "x"])
async def test_days_that_are_none_are_refused(guarded: httpx.AsyncClient, days: str) -> None:
    response = await guarded.get(f"/v1/usage?days={days}", headers=bearer(guarded, "savers", "admin"))
    assert response.status_code == 422


async def test_metrics_have_the_tokens_of_all_tenants(guarded: httpx.AsyncClient) -> None:
    async def prompt_tokens() -> float:
        lines = (await guarded.get("/metrics")).text.splitlines()
        return sum(float(line.split()[-1]) for line in lines if line.startswith("rag_tokens_total") and PROMPT in line)

    before = await prompt_tokens()
    asked = {"question": "What jumps?"}
    answer = await guarded.post("/v1/query", json=asked, headers=bearer(guarded, "savers", "reader"))
    assert await prompt_tokens() - before == answer.json()["usage"]["prompt_tokens"]


PROMPT = 'kind="prompt"'


async def test_the_operator_sees_all_tenants(
    guarded: httpx.AsyncClient, world: Any, own_folder: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    without = rag("usage")
    assert without.exit_code == 3
    assert "RAG_REDIS_URL" in without.stderr
    monkeypatch.setenv("RAG_REDIS_URL", world.redis_url)
    rows = json.loads(rag("usage", "--json").stdout)
    assert {*TENANTS} <= {row["tenant"] for row in rows}
    (line,) = rag("usage", "--tenant", "savers", "--days", "1").stdout.splitlines()
    (row,) = (row for row in rows if row["tenant"] == "savers")
    assert line.startswith(f"{row['day']}  savers  {row['prompt_tokens']} prompt (0 cached) + ")
    nobody = rag("usage", "--tenant", "nobody")
    assert (nobody.exit_code, nobody.stdout) == (0, "")
    assert "No answer" in nobody.stderr
    assert rag("usage", "--tenant", "a b").exit_code == 2
