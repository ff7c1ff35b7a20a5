"""API keys: who gets in, as which tenant, and what that tenant sees."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from rag_service.access.api_keys import ApiKeys
from rag_service.settings import Settings
from tests.support.api_keys import add_key
from workers.broker import keys
from workers.broker.app import make_redis

QUESTION = {"question": "What jumps?", "collection": "animals"}


@pytest.fixture
async def guarded(world: Any, make_client: Any) -> AsyncIterator[httpx.AsyncClient]:
    """The API with keys required."""
    async with make_client(world.redis_url, world.data_dir, open_without_key=False) as client:
        client.pipeline.redis.delete(keys.API_KEYS)
        yield client
        client.pipeline.redis.delete(keys.API_KEYS)


def bearer(client: Any, tenant: str = "default") -> dict[str, str]:
    return {"Authorization": f"Bearer {add_key(client.pipeline.api_keys, 'test', tenant)[1]}"}


async def test_without_a_key_nothing_but_health_is_there(guarded: httpx.AsyncClient) -> None:
    for method, path in (
        ("POST", "/v1/query"),
        ("GET", "/v1/answers/x"),
        ("GET", "/v1/answers/x/events"),
        ("POST", "/v1/answers/x/edits"),
        ("GET", "/v1/sessions"),
        ("GET", "/v1/collections"),
        ("POST", "/v1/collections/animals/documents"),
        ("POST", "/v1/collections/animals/search"),
        ("GET", "/v1/jobs/x"),
        ("GET", "/v1/no/such/path"),
        ("GET", "/v1"),
    ):
        response = await guarded.request(method, path, content=b"{not json")
        problem = response.json()
        assert (response.status_code, problem["code"]) == (401, "key_required"), path
        assert response.headers["content-type"] == "application/problem+json"
        assert response.headers["www-authenticate"] == 'Bearer realm="rag-service"'
    for path in ("/healthz", "/readyz", "/metrics", "/", "/openapi.json"):
        assert (await guarded.get(path)).status_code == 200


async def test_every_path_below_v1_is_described_as_guarded(guarded: httpx.AsyncClient) -> None:
    described = (await guarded.get("/openapi.json")).json()
    for path, methods in described["paths"].items():
        for operation in methods.values():
            assert bool(operation.get("security")) == path.startswith("/v1/"), path


async def test_a_key_opens_its_tenant(guarded: httpx.AsyncClient, world: Any) -> None:
    response = await guarded.post("/v1/query", json=QUESTION, headers=bearer(guarded))
    assert response.json()["answer"] == world.stage.text


async def test_keys_that_are_none_are_refused(guarded: httpx.AsyncClient) -> None:
    api_keys: ApiKeys = guarded.pipeline.api_keys  # type: ignore[attr-defined]
    made, key = add_key(api_keys, "mine", "default")
    other, _ = add_key(api_keys, "other", "default")
    good = {"Authorization": f"Bearer {key}"}
    assert (await guarded.get("/v1/sessions", headers=good)).status_code == 200
    assert (await guarded.get("/v1/sessions", headers={"Authorization": f"bearer  {key}"})).status_code == 200
    swapped = key.replace(made.id, other.id)
    changed = key[:-1] + ("A" if key[-1] != "A" else "B")
    for bad in (swapped, changed, key[:-1], key + "x", key.replace(made.id, "0" * 12), "sk-something", "", "rag_"):
        response = await guarded.get("/v1/sessions", headers={"Authorization": f"Bearer {bad}"})
        assert (response.status_code, response.json()["code"]) == (401, "invalid_key"), bad
        assert 'error="invalid_token"' in response.headers["www-authenticate"]
    for scheme in (f"Basic {key}", key):
        assert (await guarded.get("/v1/sessions", headers={"Authorization": scheme})).status_code == 401
    assert api_keys.revoke(made.id)
    assert not api_keys.revoke(made.id)
    assert (await guarded.get("/v1/sessions", headers=good)).json()["code"] == "invalid_key"


async def test_redis_holds_no_key(guarded: httpx.AsyncClient) -> None:
    api_keys: ApiKeys = guarded.pipeline.api_keys  # type: ignore[attr-defined]
    made, key = add_key(api_keys, "mine", "acme")
    kept = guarded.pipeline.redis.hgetall(keys.API_KEYS)  # type: ignore[attr-defined]
    assert set(kept) == {made.id}
    assert key.split("_", 2)[2] not in kept[made.id]  # a secret may have the sign as well
    assert len(json.loads(kept[made.id])["sha256"]) == 64
    assert api_keys.list() == [made]
    assert add_key(api_keys, "mine", "acme")[1] != key
    for name, tenant in (("", "a"), ("x" * 101, "a"), ("a\nb", "a"), ("a", ""), ("a", "../up"), ("a", "a:b")):
        with pytest.raises(ValueError, match=r"name of a key|is not a tenant"):
            add_key(api_keys, name, tenant)
    for given in ({"person": ""}, {"person": "a@b"}, {"role": "king"}, {"collections": ["a/b"]}):
        with pytest.raises(ValueError, match=r"is not a (person|role|collection)"):
            add_key(api_keys, "a", "acme", **given)
    persons = [add_key(api_keys, name, "acme")[0].person for name in ("Ann's laptop", "東京")]
    assert persons[0] == "Ann-s-laptop"
    assert persons[1]


async def test_a_foreign_tenants_things_are_not_there(guarded: httpx.AsyncClient, world: Any, make_client: Any) -> None:
    ours, theirs = bearer(guarded), bearer(guarded, "acme")
    answer = (await guarded.post("/v1/query", json={**QUESTION, "session_id": "ours"}, headers=ours)).json()
    documents = {"documents": [{"id": "own", "text": "Kiwis are green."}]}
    path = "/v1/collections/animals/documents"
    await guarded.post("/v1/collections", json={"name": "orchard"}, headers=ours)
    accepted = await guarded.post("/v1/collections/orchard/documents", json=documents, headers=ours)
    job = accepted.json()["job_id"]
    for method, where in (
        ("GET", f"/v1/answers/{answer['answer_id']}"),
        ("GET", f"/v1/answers/{answer['answer_id']}/events"),
        ("GET", f"/v1/answers/{answer['answer_id']}/versions"),
        ("DELETE", f"/v1/answers/{answer['answer_id']}"),
        ("GET", "/v1/sessions/ours"),
        ("DELETE", "/v1/sessions/ours"),
        ("GET", f"/v1/jobs/{job}"),
        ("DELETE", f"/v1/jobs/{job}"),
        ("GET", "/v1/collections/animals"),
        ("DELETE", "/v1/collections/animals"),
        ("GET", "/v1/collections/animals/documents"),
        ("GET", "/v1/collections/animals/documents/foxes"),
        ("DELETE", "/v1/collections/animals/documents/foxes"),
    ):
        response = await guarded.request(method, where, headers=theirs)
        assert response.status_code == 404, (method, where, response.text)
        if method == "GET":
            assert (await guarded.request(method, where, headers=ours)).is_success
    edits = f"/v1/answers/{answer['answer_id']}/edits"
    for where, body in (
        ("/v1/query", QUESTION),
        (edits, {"instruction": "Shorter."}),
        (path, documents),
        ("/v1/collections/animals/search", {"question": "fox"}),
    ):
        assert (await guarded.post(where, json=body, headers=theirs)).status_code == 404
    assert (await guarded.get("/v1/sessions", headers=theirs)).json() == {"sessions": []}
    assert (await guarded.get("/v1/collections", headers=theirs)).json() == {"collections": []}


async def test_tenants_use_the_same_names_apart(guarded: httpx.AsyncClient, world: Any) -> None:
    theirs = bearer(guarded, f"acme-{world.engine}")
    assert (await guarded.post("/v1/collections", json={"name": "animals"}, headers=theirs)).status_code == 201
    body = {"documents": [{"id": "foxes", "text": "Kiwis are green and grow on vines."}]}
    job = (await guarded.post("/v1/collections/animals/documents", json=body, headers=theirs)).json()["job_id"]
    for _ in range(600):
        progress = (await guarded.get(f"/v1/jobs/{job}", headers=theirs)).json()
        if progress["status"] not in ("queued", "running"):
            break
        await asyncio.sleep(0.05)
    assert progress["status"] == "succeeded", progress
    read = "/v1/collections/animals/documents/foxes"
    assert "Kiwis" in (await guarded.get(read, headers=theirs)).json()["text"]
    assert "Kiwis" not in (await guarded.get(read, headers=bearer(guarded))).json()["text"]
    asked = {**QUESTION, "session_id": "same"}
    for headers, document in ((theirs, "Kiwis"), (bearer(guarded), "fox")):
        answer = (await guarded.post("/v1/query", json=asked, headers=headers)).json()
        assert answer["turn"] == 1
        assert document in answer["passages"][0]["text"]


async def test_where_keys_are_not_required(client: httpx.AsyncClient) -> None:
    assert (await client.get("/v1/collections")).json()["collections"] != []
    other = await client.get("/v1/collections", headers={"Authorization": "Bearer sk-what-clients-send"})
    assert other.json()["collections"] != []
    theirs = bearer(client, "acme-3")
    assert (await client.get("/v1/collections", headers=theirs)).json() == {"collections": []}
    client.pipeline.redis.delete(keys.API_KEYS)  # type: ignore[attr-defined]
    gone = await client.get("/v1/collections", headers=theirs)
    assert (gone.status_code, gone.json()["code"]) == (401, "invalid_key")


async def test_no_redis_is_no_way_in(make_client: Any, world: Any, tmp_path: Any) -> None:
    async with make_client(f"unix://{tmp_path / 'nobody.sock'}", world.data_dir, open_without_key=False) as client:
        key = "rag_" + "0" * 12 + "_" + "a" * 43
        response = await client.get("/v1/sessions", headers={"Authorization": f"Bearer {key}"})
        assert (response.status_code, response.json()["code"]) == (503, "redis_unavailable")
        assert (await client.get("/v1/sessions")).status_code == 401


PROXIES = (
    "Forwarded",
    "Via",
    "X-Forwarded-For",
    "X-Forwarded-Host",
    "X-Forwarded-Proto",
    "X-Real-IP",
    "CF-Connecting-IP",
    "True-Client-IP",
)


@pytest.mark.parametrize("header", PROXIES)
async def test_who_comes_through_a_proxy_needs_a_key_where_the_service_is_open(
    header: str, client: httpx.AsyncClient
) -> None:
    """A proxy in front of loopback would else let everyone in."""
    told = {header: "10.0.0.9"}
    response = await client.get("/v1/sessions", headers=told)
    assert (response.status_code, response.json()["code"]) == (401, "key_required")
    response = await client.get("/v1/sessions", headers={**told, "Authorization": "Bearer sk-something"})
    assert (response.status_code, response.json()["code"]) == (401, "invalid_key")
    assert (await client.get("/v1/sessions", headers={**told, **bearer(client, "acme-4")})).status_code == 200


@pytest.mark.parametrize("host", ["127.0.0.1", "::1", "localhost", "0.0.0.0"])
async def test_a_key_is_needed_wherever_the_service_listens(host: str, world: Any, make_client: Any) -> None:
    async with make_client(world.redis_url, world.data_dir, host=host, open_without_key=False) as client:
        assert (await client.get("/v1/sessions")).json()["code"] == "key_required"
    assert not Settings(_env_file=None).open_without_key  # type: ignore[call-arg]


UNREADABLE = (
    [("Authorization", "Basic dXNlcjpwYXNz")],
    [("Authorization", "Bearer")],
    [("Authorization", "Bearer ")],
    [("Authorization", "")],
    [("Authorization", "sk-something")],
    [("Authorization", "Bearer sk-one two")],
    [("Authorization", "Bearer sk-one"), ("Authorization", "Bearer sk-two")],
    [("Authorization", b"Bearer sk-\xc3\xa9")],
    [("Authorization", b"Bearer sk-\xff")],
    [("Authorization", "Bearer rag_")],
    [("Authorization", "Bearer rag_" + "0" * 12 + "_" + "a" * 43)],
)


@pytest.mark.parametrize("is_open", [True, False])
@pytest.mark.parametrize("headers", UNREADABLE, ids=range(len(UNREADABLE)))
async def test_what_cannot_be_read_as_a_key_is_nobodys(
    headers: list[tuple[str, Any]], is_open: bool, world: Any, make_client: Any
) -> None:
    async with make_client(world.redis_url, world.data_dir, open_without_key=is_open) as client:
        response = await client.get("/v1/sessions", headers=[(name.encode(), _bytes(value)) for name, value in headers])
        assert (response.status_code, response.json()["code"]) == (401, "invalid_key")


def _bytes(value: str | bytes) -> bytes:
    return value if isinstance(value, bytes) else value.encode()


async def test_keys_of_earlier_versions_are_editors_of_the_whole_tenant(guarded: httpx.AsyncClient) -> None:
    redis: Any = guarded.pipeline.redis  # type: ignore[attr-defined]
    headers = bearer(guarded)
    ((key_id, text),) = redis.hgetall(keys.API_KEYS).items()
    record = json.loads(text)
    for field in ("person", "role", "collections"):
        del record[field]
    redis.hset(keys.API_KEYS, key_id, json.dumps(record))
    (known,) = guarded.pipeline.api_keys.list()  # type: ignore[attr-defined]
    assert (known.person, known.role, known.collections) == ("", "editor", None)
    answer = (await guarded.post("/v1/query", json=QUESTION, headers=headers)).json()
    assert redis.exists(f"rag:default:answer:{answer['answer_id']}")
    assert (await guarded.post("/v1/collections", json={"name": "by-an-old-key"}, headers=headers)).status_code == 201
    assert (await guarded.delete("/v1/collections/by-an-old-key", headers=headers)).status_code == 204


def test_keys_outlive_the_process_that_made_them(world: Any) -> None:
    first, second = make_redis(world.redis_url), make_redis(world.redis_url)
    made, _ = add_key(ApiKeys(first), "kept", "default")
    assert made in ApiKeys(second).list()
    assert ApiKeys(second).revoke(made.id)
    first.close()
    second.close()


def test_names_that_ids_cannot_tell_apart_are_other_persons(world: Any) -> None:
    redis = make_redis(world.redis_url)
    held = ApiKeys(redis)
    first, _ = add_key(held, "Özil", "default")
    again, _ = add_key(held, "Özil", "default")
    other, _ = add_key(held, "Üzil", "default")
    assert first.person == again.person == "zil"
    assert other.person not in ("zil", "")
    assert other.person.startswith("zil-")
    redis.close()
