"""Keys over HTTP: what admins of a tenant list, create and revoke, and what they cannot."""

from __future__ import annotations

import json
import threading
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from rag_service.access.api_keys import ApiKeys
from rag_service.client import AsyncRagClient, Conflict, NotFound, RagClient, Unauthorized
from tests.support.api_keys import add_key
from workers.broker import keys
from workers.broker.app import make_redis

TENANT = "people"


@pytest.fixture
async def guarded(world: Any, make_client: Any) -> AsyncIterator[httpx.AsyncClient]:
    async with make_client(world.redis_url, world.data_dir, open_without_key=False) as client:
        client.pipeline.redis.delete(keys.API_KEYS)
        yield client
        client.pipeline.redis.delete(keys.API_KEYS)


def bearer(client: Any, tenant: str = TENANT, **options: Any) -> dict[str, str]:
    made = add_key(client.pipeline.api_keys, "test", tenant, **{"person": "ann", "role": "admin", **options})
    return {"Authorization": f"Bearer {made[1]}"}


def id_of(headers: dict[str, str]) -> str:
    return headers["Authorization"].split("_")[1]


async def test_a_key_is_created_listed_used_and_revoked(guarded: httpx.AsyncClient) -> None:
    admin = bearer(guarded)
    wanted = {"name": "Bob's laptop", "person": "bob", "role": "reader", "collections": ["fruit", "fruit", "animals"]}
    response = await guarded.post("/v1/keys", json=wanted, headers=admin)
    created = response.json()
    assert response.status_code == 201, response.text
    key = created.pop("key")
    assert key.startswith(f"rag_{created['id']}_")
    assert created.pop("created") > 0
    lasting = {"expires": None, "issuer": None}
    assert created == {**wanted, "id": created["id"], "collections": ["animals", "fruit"], **lasting}
    listed = await guarded.get("/v1/keys", headers=admin)
    assert [one["id"] for one in listed.json()["keys"]] == [id_of(admin), created["id"]]
    assert set(listed.json()["keys"][0]) == {"id", "name", "person", "role", "collections", "created", *lasting}
    record = json.loads(guarded.pipeline.redis.hget(keys.API_KEYS, created["id"]))  # type: ignore[attr-defined]
    assert record["tenant"] == TENANT
    for secret in (key.split("_", 2)[2], record["sha256"]):
        assert secret not in listed.text
    theirs = {"Authorization": f"Bearer {key}"}
    assert (await guarded.get("/v1/sessions", headers=theirs)).status_code == 200
    assert (await guarded.get("/v1/keys", headers=theirs)).status_code == 403
    assert (await guarded.delete(f"/v1/keys/{created['id']}", headers=admin)).status_code == 204
    assert (await guarded.get("/v1/sessions", headers=theirs)).json()["code"] == "invalid_key"
    gone = await guarded.delete(f"/v1/keys/{created['id']}", headers=admin)
    assert (gone.status_code, gone.json()["code"]) == (404, "unknown_key")


async def test_the_defaults_of_a_key(guarded: httpx.AsyncClient) -> None:
    created = (await guarded.post("/v1/keys", json={"name": "the page"}, headers=bearer(guarded))).json()
    assert (created["person"], created["role"], created["collections"]) == ("the-page", "editor", None)


async def test_other_tenants_keys_are_not_there(guarded: httpx.AsyncClient) -> None:
    ours, theirs = bearer(guarded), bearer(guarded, "others")
    listed = (await guarded.get("/v1/keys", headers=ours)).json()["keys"]
    assert [one["id"] for one in listed] == [id_of(ours)]
    for key_id in (id_of(theirs), "0" * 12, "x", "0" * 13):
        response = await guarded.delete(f"/v1/keys/{key_id}?self=true", headers=ours)
        assert (response.status_code, response.json()["code"]) == (404, "unknown_key"), key_id
    assert (await guarded.get("/v1/keys", headers=theirs)).status_code == 200
    refused = await guarded.post("/v1/keys", json={"name": "x", "tenant": "others"}, headers=ours)
    assert (refused.status_code, refused.json()["code"]) == (422, "invalid_request")


async def test_nobody_locks_themselves_out_by_chance(guarded: httpx.AsyncClient) -> None:
    admin = bearer(guarded)
    for query in ("", "?self=false"):
        response = await guarded.delete(f"/v1/keys/{id_of(admin)}{query}", headers=admin)
        assert (response.status_code, response.json()["code"]) == (409, "own_key")
    assert (await guarded.delete(f"/v1/keys/{id_of(admin)}?self=true", headers=admin)).status_code == 204
    assert (await guarded.get("/v1/keys", headers=admin)).status_code == 401


async def test_an_admin_of_some_collections_hands_out_no_more(guarded: httpx.AsyncClient) -> None:
    limited = bearer(guarded, collections=["fruit", "nuts"])
    whole, narrow = bearer(guarded, person="bob"), bearer(guarded, person="eve", collections=["nuts"])
    wide = bearer(guarded, person="dan", collections=["nuts", "secret"])
    add_key(guarded.pipeline.api_keys, "carol", TENANT)  # type: ignore[attr-defined]
    listed = (await guarded.get("/v1/keys", headers=limited)).json()["keys"]
    assert {one["id"] for one in listed} == {id_of(limited), id_of(narrow)}
    for beyond in (whole, wide):
        assert (await guarded.delete(f"/v1/keys/{id_of(beyond)}", headers=limited)).status_code == 404
    for body in (
        {"collections": ["secret"]},
        {"collections": ["fruit", "secret"]},
        {"person": "bob"},  # whose sessions may be about any collection
        {"person": "dan", "collections": ["nuts"]},
        {"name": "carol"},  # from which this person would be derived
    ):
        refused = await guarded.post("/v1/keys", json={"name": "test", **body}, headers=limited)
        assert (refused.status_code, refused.json()["code"]) == (403, "forbidden"), body
    for body, collections in (
        ({"person": "eve"}, ["fruit", "nuts"]),
        ({"person": "ann", "role": "admin"}, ["fruit", "nuts"]),
        ({"person": "new", "collections": ["fruit"]}, ["fruit"]),
    ):
        created = await guarded.post("/v1/keys", json={"name": "test", **body}, headers=limited)
        assert (created.status_code, created.json().get("collections")) == (201, collections), created.text
    assert (await guarded.delete(f"/v1/keys/{id_of(narrow)}", headers=limited)).status_code == 204


async def test_no_admin_opens_the_sessions_of_another_person(guarded: httpx.AsyncClient, world: Any) -> None:
    former = bearer(guarded, person="former")
    asked = {"question": "What jumps?", "session_id": "kept"}
    assert (await guarded.post("/v1/query", json=asked, headers=former)).status_code == 200
    guarded.pipeline.api_keys.revoke(id_of(former))  # type: ignore[attr-defined]
    body = {"name": "test", "person": "former"}
    for admin in (bearer(guarded, collections=["fruit"]), bearer(guarded)):
        refused = await guarded.post("/v1/keys", json=body, headers=admin)
        assert (refused.status_code, refused.json()["code"]) == (403, "forbidden")
        assert "rag keys create" in refused.json()["detail"]
    theirs = bearer(guarded, person="former")  # from the operator
    assert (await guarded.delete("/v1/sessions?all=true", headers=theirs)).json() == {"sessions": 1}
    assert (await guarded.post("/v1/keys", json=body, headers=bearer(guarded))).status_code == 201


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"name": ""},
        {"name": "  "},
        {"name": "a\nb"},
        {"name": "x" * 101},
        {"name": 3},
        {"name": "x", "person": ""},
        {"name": "x", "person": "a@b"},
        {"name": "x", "role": "king"},
        {"name": "x", "collections": []},
        {"name": "x", "collections": ["a/b"]},
        {"name": "x", "collections": "a"},
        {"name": "x", "collections": ["a"] * 1001},
    ],
    ids=str,
)
async def test_bodies_that_are_no_key_are_refused(guarded: httpx.AsyncClient, body: dict[str, Any]) -> None:
    admin = bearer(guarded)
    response = await guarded.post("/v1/keys", json=body, headers=admin)
    assert (response.status_code, response.json()["code"]) == (422, "invalid_request"), response.text
    assert len((await guarded.get("/v1/keys", headers=admin)).json()["keys"]) == 1


def test_the_clients_have_these_calls(live_url: str, world: Any) -> None:
    client = make_redis(world.redis_url)
    held = ApiKeys(client)
    own, key = add_key(held, "test", TENANT, role="admin")
    with RagClient(live_url, key) as rag:
        created = rag.create_key("phone", person="bob", role="reader", collections=["fruit"])
        assert [one.id for one in rag.api_keys()] == [own.id, created.id]
        with pytest.raises(Conflict):
            rag.revoke_key(own.id)
        rag.revoke_key(created.id)
        with pytest.raises(NotFound):
            rag.revoke_key(created.id)
        rag.revoke_key(own.id, own=True)
        with pytest.raises(Unauthorized):
            rag.api_keys()
    client.close()


async def test_the_async_client_too(live_url: str, world: Any) -> None:
    client = make_redis(world.redis_url)
    own, key = add_key(ApiKeys(client), "test", TENANT, role="admin")
    async with AsyncRagClient(live_url, key) as rag:
        created = await rag.create_key("phone")
        assert [one.id for one in await rag.api_keys()] == [own.id, created.id]
        await rag.revoke_key(created.id)
        await rag.revoke_key(own.id, own=True)
    client.close()


@pytest.mark.parametrize("path", ["/v1/query", "/v1/chat/completions"])
def test_a_revoked_key_ends_its_streams(live_url: str, world: Any, path: str) -> None:
    """The answer waits in the middle, so that only the revocation can end the stream."""
    client = make_redis(world.redis_url)
    held = ApiKeys(client)
    made, key = add_key(held, "test", "default", role="editor")
    _, other = add_key(held, "other", "default", role="editor")
    body = {"stream": True, "question": "What jumps?", "collection": "animals"}
    if "chat" in path:
        body = {"stream": True, "model": "rag:animals", "messages": [{"role": "user", "content": "What jumps?"}]}
    world.stage.hold_at = 3
    ended = threading.Event()

    def read(secret: str) -> list[str]:
        with httpx.stream(
            "POST", live_url + path, json=body, headers={"Authorization": f"Bearer {secret}"}, timeout=60
        ) as response:
            lines = list(response.iter_lines())
        ended.set()
        return lines

    seen: list[str] = []
    reader = threading.Thread(target=lambda: seen.extend(read(key)))
    reader.start()
    assert world.stage.waiting.wait(30)
    assert not ended.is_set()
    assert held.revoke(made.id)
    assert ended.wait(30), "the worker still waits"
    reader.join()
    assert seen
    text = "\n".join(seen)
    for end in ("event: done", "event: error", "[DONE]"):
        assert end not in text
    world.stage.open.set()
    world.stage.hold_at = None
    assert any(mark in "\n".join(read(other)) for mark in ("event: done", "[DONE]")), "those of other keys go on"
    client.delete(keys.API_KEYS)
    client.close()
