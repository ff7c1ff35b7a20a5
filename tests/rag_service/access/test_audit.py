"""The audit log: every change has its entry, nothing else has, and admins and the operator read it."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from rag_service.access.audit_log import AuditLog
from rag_service.access.principal import LOCAL, Principal
from rag_service.client import AsyncRagClient, RagClient
from rag_service.contract.audit import AuditEntry
from tests.support.api_keys import add_key
from tests.support.command_line import rag
from workers.broker import keys
from workers.broker.app import make_redis
from workers.broker.embedded_redis import EmbeddedRedis

TENANT = "changers"
DAY_MS = 86_400_000

KIWI = "sha256:1a5afeda973d776e"
"""The digest of the document's id: ids have the names of files, which are erased."""


@pytest.fixture
async def guarded(world: Any, make_client: Any) -> AsyncIterator[httpx.AsyncClient]:
    async with make_client(world.redis_url, world.data_dir, open_without_key=False) as client:
        redis = client.pipeline.redis
        redis.delete(keys.API_KEYS, keys.audit(TENANT), keys.audit("default"))
        yield client
        redis.delete(keys.API_KEYS, keys.audit(TENANT), keys.audit("default"))


def bearer(client: Any, tenant: str = TENANT, **options: Any) -> dict[str, str]:
    made = add_key(client.pipeline.api_keys, "test", tenant, **{"person": "ann", "role": "admin", **options})
    return {"Authorization": f"Bearer {made[1]}"}


def id_of(headers: dict[str, str]) -> str:
    return headers["Authorization"].split("_")[1]


async def log_of(client: httpx.AsyncClient, headers: dict[str, str], query: str = "") -> list[dict[str, Any]]:
    response = await client.get(f"/v1/audit{query}", headers=headers)
    assert response.status_code == 200, response.text
    entries: list[dict[str, Any]] = response.json()["entries"]
    return entries


async def test_every_change_has_its_entry(guarded: httpx.AsyncClient, world: Any) -> None:
    ann, bob = bearer(guarded), bearer(guarded, person="bob", role="editor")
    await guarded.post("/v1/collections", json={"name": "fruit"}, headers=ann)
    body = {"documents": [{"id": "kiwi", "text": "Kiwis are green.", "title": "A secret title"}]}
    path = "/v1/collections/fruit/documents"
    accepted = (await guarded.post(path, json=body, headers=bob)).json()
    while (await guarded.get(f"/v1/jobs/{accepted['job_id']}", headers=bob)).json()["status"] != "succeeded":
        pass
    uploaded = await guarded.post(path, files=[("files", ("plum.txt", b"Plums are blue."))], headers=bob)
    job_id = uploaded.json()["job_id"]
    cancelled = (await guarded.delete(f"/v1/jobs/{job_id}", headers=ann)).json()["cancelled"]
    assert (await guarded.delete(f"{path}/kiwi", headers=bob)).status_code == 204
    created = (await guarded.post("/v1/keys", json={"name": "Bob, phone"}, headers=ann)).json()
    assert (await guarded.delete(f"/v1/keys/{created['id']}", headers=ann)).status_code == 204
    assert (await guarded.delete("/v1/collections/fruit", headers=ann)).status_code == 204
    response = await guarded.get("/v1/audit", headers=ann)
    entries = response.json()["entries"]
    by_ann, by_bob = {"person": "ann", "key": id_of(ann)}, {"person": "bob", "key": id_of(bob)}
    none = dict.fromkeys(("collection", "document_id", "job_id", "key_id", "name"))
    fruit = {**none, "collection": "fruit"}
    expected = [
        {**by_ann, **fruit, "action": "collection.create"},
        {**by_bob, **fruit, "action": "documents.ingest", "job_id": accepted["job_id"]},
        {**by_bob, **fruit, "action": "documents.ingest", "job_id": job_id},
        *([{**by_ann, **fruit, "action": "job.cancel", "job_id": job_id}] if cancelled else []),
        {**by_bob, **fruit, "action": "document.delete", "document_id": KIWI},
        {**by_ann, **none, "action": "key.create", "key_id": created["id"]},
        {**by_ann, **none, "action": "key.revoke", "key_id": created["id"]},
        {**by_ann, **fruit, "action": "collection.delete"},
    ]
    times = [entry.pop("time") for entry in entries]
    assert times == sorted(times, reverse=True)
    assert all(entry.pop("id") for entry in entries)
    assert entries == expected[::-1]
    for text in ("Kiwis", "Plums", "secret title", "Bob, phone", created["key"].split("_", 2)[2]):
        assert text not in response.text


async def test_what_changes_nothing_has_none(guarded: httpx.AsyncClient, world: Any) -> None:
    """Reading, asking, and what is refused."""
    admin, reader = bearer(guarded), bearer(guarded, role="reader")
    body = {"documents": [{"id": "x", "text": "y"}]}
    for method, path, sent, status in (
        ("GET", "/v1/collections", None, 200),
        ("POST", "/v1/query", {"question": "What?"}, 200),
        ("DELETE", "/v1/sessions?all=true", None, 200),
        ("POST", "/v1/collections", {"name": "../up"}, 422),
        ("DELETE", "/v1/collections/nowhere", None, 404),
        ("DELETE", "/v1/collections/nowhere/documents/x", None, 404),
        ("POST", "/v1/collections/nowhere/documents", body, 404),
        ("DELETE", f"/v1/jobs/{'0' * 32}", None, 404),
        ("POST", "/v1/keys", {"name": ""}, 422),
        ("DELETE", f"/v1/keys/{'0' * 12}", None, 404),
        ("DELETE", f"/v1/keys/{id_of(admin)}", None, 409),
    ):
        response = await guarded.request(method, path, json=sent, headers=admin)
        assert response.status_code == status, (method, path, response.text)
    assert (await guarded.post("/v1/collections", json={"name": "x"}, headers=reader)).status_code == 403
    assert await log_of(guarded, admin) == []
    await guarded.post("/v1/collections", json={"name": "twice"}, headers=admin)
    again = await guarded.post("/v1/collections", json={"name": "twice"}, headers=admin)
    missing = await guarded.delete("/v1/collections/twice/documents/none", headers=admin)
    assert (again.status_code, missing.status_code) == (409, 404)
    assert [entry["action"] for entry in await log_of(guarded, admin)] == ["collection.create"], "withdrawn"
    await guarded.delete("/v1/collections/twice", headers=admin)


async def test_it_is_read_in_pages(guarded: httpx.AsyncClient) -> None:
    log = guarded.pipeline.audit  # type: ignore[attr-defined]
    for number in range(5):
        with log.recording(Principal(TENANT, "ann"), "collection.create", collection=f"c{number}"):
            pass
    admin, seen, before, pages = bearer(guarded), [], "", 0
    while True:
        page = (await guarded.get(f"/v1/audit?limit=2{before}", headers=admin)).json()
        seen += [entry["collection"] for entry in page["entries"]]
        pages += 1
        if page["next"] is None:
            break
        before = f"&before={page['next']}"
    assert (seen, pages) == (["c4", "c3", "c2", "c1", "c0"], 3)
    for oldest in ("0-0", "00-0", "0-1"):
        reply = await guarded.get(f"/v1/audit?before={oldest}", headers=admin)
        assert reply.json() == {"entries": [], "next": None}, oldest
    for query in ("limit=0", "limit=1001", "before=x", "before=1", f"before={'9' * 20}-0", "before=-"):
        assert (await guarded.get(f"/v1/audit?{query}", headers=admin)).status_code == 422, query


async def test_admins_read_their_own_tenant_and_collections(guarded: httpx.AsyncClient) -> None:
    limited = bearer(guarded, person="eve", collections=["fruit"])
    log = guarded.pipeline.audit  # type: ignore[attr-defined]
    for name in ("fruit", "secret"):
        with log.recording(Principal(TENANT, "ann"), "collection.create", collection=name):
            pass
    created = (await guarded.post("/v1/keys", json={"name": "x"}, headers=limited)).json()
    with log.recording(Principal(TENANT, "ann"), "key.create", key_id="0" * 12):
        pass
    seen = [(entry["collection"], entry["key_id"]) for entry in await log_of(guarded, limited)]
    assert seen == [(None, created["id"]), ("fruit", None)]
    assert len(await log_of(guarded, bearer(guarded))) == 4
    assert await log_of(guarded, bearer(guarded, "others")) == []
    for role in ("reader", "editor"):
        assert (await guarded.get("/v1/audit", headers=bearer(guarded, role=role))).status_code == 403


def test_old_entries_go(world: Any) -> None:
    redis = make_redis(world.redis_url)
    name = keys.audit(TENANT)
    redis.delete(name)
    now_ms = int(1000 * redis.time()[0])
    for days in (40, 10):
        redis.xadd(name, {"action": "key.create", "person": "", "key": "local"}, id=f"{now_ms - days * DAY_MS}-0")
    log = AuditLog(redis, days=30)
    assert len(list(log.entries(TENANT, 3660))) == 1, "also before they are removed"
    with log.recording(Principal(TENANT), "collection.create", collection="new"):
        pass
    assert redis.xlen(name) == 2
    assert 29 * 86_400 < redis.ttl(name) <= 30 * 86_400
    assert [entry.collection for entry in log.entries(TENANT, 1)] == ["new"]
    for number in range(1010):  # more than one reading
        redis.xadd(name, {"action": "key.create", "person": f"p{number}", "key": ""})
    assert [entry.person for entry in log.entries(TENANT, 30)][:-2] == [f"p{number}" for number in range(1009, -1, -1)]
    redis.delete(name)
    redis.close()


async def test_nothing_changes_without_an_entry(make_client: Any, world: Any, tmp_path: Any) -> None:
    """The local key needs no Redis; its changes do."""
    async with make_client(f"unix://{tmp_path / 'nobody.sock'}", world.data_dir, open_without_key=False) as client:
        local = {"Authorization": f"Bearer {client._transport.app.state.local_key}"}
        response = await client.post("/v1/collections", json={"name": "unlogged"}, headers=local)
        assert (response.status_code, response.json()["code"]) == (503, "redis_unavailable")
        assert "unlogged" not in (await client.get("/v1/collections", headers=local)).text


def test_an_entry_that_cannot_be_withdrawn_hides_no_error(tmp_path: Any) -> None:
    def change_that_fails() -> None:
        with EmbeddedRedis(tmp_path) as server:
            client = make_redis(server.url)
            recording = AuditLog(client, days=1).recording(LOCAL, "key.create", key_id="0" * 12)
            recording.__enter__()
        gone = KeyError("what went wrong")
        assert not recording.__exit__(KeyError, gone, None)
        client.close()
        raise gone

    with pytest.raises(KeyError, match="what went wrong"):
        change_that_fails()


async def test_the_operator_reads_all_and_is_in_it(
    guarded: httpx.AsyncClient, world: Any, own_folder: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert rag("audit").exit_code == 3
    monkeypatch.setenv("RAG_REDIS_URL", world.redis_url)
    made = json.loads(rag("keys", "create", "boss", "--tenant", TENANT, "--json").stdout)
    assert rag("keys", "revoke", made["id"]).exit_code == 0
    assert rag("keys", "revoke", made["id"]).exit_code == 1
    local = {"Authorization": f"Bearer {guarded._transport.app.state.local_key}"}  # type: ignore[attr-defined]
    await guarded.post("/v1/collections", json={"name": "locals"}, headers=local)
    await guarded.delete("/v1/collections/locals", headers=local)
    rows = json.loads(rag("audit", "--json").stdout)
    assert [(row["tenant"], row["key"], row["action"]) for row in rows if row["tenant"] in (TENANT, "default")] == [
        ("default", "local", "collection.delete"),
        ("default", "local", "collection.create"),
        (TENANT, "operator", "key.revoke"),
        (TENANT, "operator", "key.create"),
    ]
    lines = rag("audit", "--tenant", TENANT, "--days", "1").stdout.splitlines()
    assert [line.split("  ")[1:] for line in lines] == [
        [TENANT, "operator", action, made["id"]] for action in ("key.revoke", "key.create")
    ]
    nobody = rag("audit", "--tenant", "nobody")
    assert (nobody.exit_code, nobody.stdout) == (0, "")
    assert "Nothing" in nobody.stderr
    assert rag("audit", "--tenant", "a b").exit_code == 2
    assert rag("audit", "--days", "0").exit_code == 2


async def test_the_clients_read_it(live_url: str, guarded: httpx.AsyncClient) -> None:
    key = bearer(guarded)["Authorization"].removeprefix("Bearer ")
    log = guarded.pipeline.audit  # type: ignore[attr-defined]
    for name in ("a", "b"):
        with log.recording(Principal(TENANT, "ann"), "collection.create", collection=name):
            pass
    with RagClient(live_url, key) as rag_client:
        first = rag_client.audit(limit=1)
        assert isinstance(first.entries[0], AuditEntry)
        rest = rag_client.audit(before=first.next)
    assert [entry.collection for entry in first.entries + rest.entries] == ["b", "a"]
    async with AsyncRagClient(live_url, key) as again:
        assert await again.audit(limit=1) == first
