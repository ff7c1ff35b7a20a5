"""Signing in by a cookie: what it opens, for how long, and who cannot use it."""

from __future__ import annotations

import asyncio
import hashlib
import threading
from collections.abc import AsyncIterator
from http.cookies import SimpleCookie
from typing import Any

import httpx
import pytest

from rag_service.access.api_keys import ApiKeys
from tests.support.api_keys import add_key
from workers.broker import keys
from workers.broker.app import make_redis

TENANT = "signers"
OWN_PAGE = {"Sec-Fetch-Site": "same-origin"}


@pytest.fixture
async def guarded(world: Any, make_client: Any) -> AsyncIterator[httpx.AsyncClient]:
    """The API with keys required, at an address with a port; the client keeps no cookies."""
    async with make_client(world.redis_url, world.data_dir, open_without_key=False) as client:
        client.headers["Host"] = "127.0.0.1:8080"
        client.pipeline.redis.delete(keys.API_KEYS)
        yield client
        client.pipeline.redis.delete(keys.API_KEYS)


def created(client: Any, **options: Any) -> tuple[str, str]:
    """Id and text of a new key."""
    options = {"tenant": TENANT, "person": "ann", "role": "editor", **options}
    record, key = add_key(client.pipeline.api_keys, "the page", **options)
    return record.id, key


async def sign_in(client: httpx.AsyncClient, key: str, **headers: str) -> httpx.Response:
    response = await client.post("/v1/sign-in", json={"key": key}, headers=headers)
    client.cookies.clear()
    return response


def cookie_of(response: httpx.Response) -> dict[str, str]:
    """The header that sends the cookie of a response back."""
    pair = response.headers["set-cookie"].partition(";")[0]
    return {"Cookie": pair}


def record_of(cookie: dict[str, str]) -> str:
    """The key in Redis of a sign-in."""
    token = cookie["Cookie"].partition("=")[2]
    return keys.sign_in(token.partition(".")[0], hashlib.sha256(token.encode()).hexdigest())


async def test_a_key_gives_a_cookie_that_opens_what_it_opens(guarded: httpx.AsyncClient) -> None:
    key_id, key = created(guarded, collections=["fruit"])
    response = await sign_in(guarded, key)
    who = {"tenant": TENANT, "person": "ann", "role": "editor", "collections": ["fruit"]}
    own = {"key": key_id, "key_name": "the page", "provider": None, "keeps_originals": False}
    assert (response.status_code, response.json()) == (200, {**who, **own})
    (morsel,) = SimpleCookie(response.headers["set-cookie"]).values()
    assert morsel.key == "rag-sign-in-8080"
    assert (morsel["httponly"], morsel["samesite"].lower(), morsel["path"]) == (True, "strict", "/")
    assert morsel["secure"] == ""
    assert morsel["domain"] == ""
    assert int(morsel["max-age"]) == 7 * 86_400
    assert key.split("_", 2)[2] not in response.headers["set-cookie"]
    cookie = cookie_of(response)
    assert (await guarded.get("/v1/sign-in", headers=cookie)).json() == response.json()
    listed = await guarded.get("/v1/collections", headers=cookie)
    assert (listed.status_code, listed.json()) == (200, {"collections": []})
    other = await guarded.post("/v1/collections", json={"name": "nuts"}, headers=cookie | OWN_PAGE)
    assert other.status_code == 403
    assert (await guarded.post("/v1/keys", json={"name": "x"}, headers=cookie | OWN_PAGE)).status_code == 403


async def test_redis_has_neither_token_nor_key(guarded: httpx.AsyncClient) -> None:
    key_id, key = created(guarded)
    cookie = cookie_of(await sign_in(guarded, key))
    redis = guarded.pipeline.redis  # type: ignore[attr-defined]
    assert redis.get(record_of(cookie)) == key_id
    assert 6 * 86_400 < redis.ttl(record_of(cookie)) <= 7 * 86_400
    secret = cookie["Cookie"].partition(".")[2]
    assert not [name for name in redis.scan_iter(f"rag:{TENANT}:*") if secret in name]
    assert cookie != cookie_of(await sign_in(guarded, key)), "each sign-in has its own"


async def test_the_days_are_a_setting(world: Any, make_client: Any) -> None:
    async with make_client(world.redis_url, world.data_dir, open_without_key=False, sign_in_days=2) as client:
        response = await sign_in(client, created(client)[1])
        assert "Max-Age=172800" in response.headers["set-cookie"]
        assert response.headers["set-cookie"].startswith("rag-sign-in="), "an address without a port"


@pytest.mark.parametrize("key", ["", "x", "rag_" + "0" * 12 + "_" + "a" * 43, "schlüssel", "x" * 201, 3, None])
async def test_what_is_no_key_signs_nobody_in(guarded: httpx.AsyncClient, key: Any) -> None:
    response = await guarded.post("/v1/sign-in", json={"key": key})
    assert response.status_code in (401, 422)
    assert response.json()["code"] in ("invalid_key", "invalid_request")
    assert "set-cookie" not in response.headers


async def test_cookies_that_are_none(guarded: httpx.AsyncClient) -> None:
    cookie = cookie_of(await sign_in(guarded, created(guarded)[1]))["Cookie"]
    name, _, token = cookie.partition("=")
    changed = token[:-1] + ("A" if token[-1] != "A" else "B")
    for bad in (
        f"{name}=",
        f"{name}={changed}",
        f"{name}=x.y",
        f"{name}={token}x",
        f"rag-sign-in-9090={token}",
        "x",
        ";",
    ):
        response = await guarded.get("/v1/sessions", headers={"Cookie": bad})
        code = "signed_out" if bad.startswith("rag-sign-in-8080=") and bad[-1] != "=" else "key_required"
        assert (response.status_code, response.json()["code"]) == (401, code), bad
    elsewhere = await guarded.get("/v1/sessions", headers={"Cookie": cookie, "Host": "127.0.0.1:9090"})
    assert elsewhere.status_code == 401, "the name has the port"
    assert (await guarded.get("/v1/sessions", headers={"Cookie": f"a=b; {cookie}; c"})).status_code == 200


async def test_authorization_wins(guarded: httpx.AsyncClient) -> None:
    cookie = cookie_of(await sign_in(guarded, created(guarded)[1]))
    _, other = created(guarded, tenant="others", person="bob")
    both = cookie | {"Authorization": f"Bearer {other}"}
    assert (await guarded.get("/v1/sign-in", headers=both)).json()["tenant"] == "others"
    bad = cookie | {"Authorization": "Bearer rag_x"}
    assert (await guarded.get("/v1/sign-in", headers=bad)).json()["code"] == "invalid_key"
    made = await guarded.delete("/v1/sessions?all=true", headers=both)
    assert made.status_code == 200, "a program that sends a key needs no origin"


CHANGES = (
    ("POST", "/v1/query", {"question": "What?"}),
    ("POST", "/v1/collections", {"name": "forged"}),
    ("DELETE", "/v1/sessions?all=true", None),
    ("DELETE", "/v1/sign-in", None),
)


@pytest.mark.parametrize(("method", "path", "body"), CHANGES, ids=lambda value: str(value)[:30])
@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Sec-Fetch-Site": "none"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
        {"Origin": "https://evil.example"},
        {"Origin": "http://127.0.0.1:9090"},
        {"Origin": "null"},
        {"Origin": "http://127.0.0.1:9090", "Sec-Fetch-Site": "same-origin"},
    ],
    ids=str,
)
async def test_another_sites_page_changes_nothing(
    guarded: httpx.AsyncClient, method: str, path: str, body: Any, headers: dict[str, str]
) -> None:
    cookie = cookie_of(await sign_in(guarded, created(guarded)[1]))
    response = await guarded.request(method, path, json=body, headers=cookie | headers)
    assert (response.status_code, response.json()["code"]) == (403, "foreign_origin")
    assert (await guarded.get("/v1/sign-in", headers=cookie)).status_code == 200, "still signed in"
    assert (await guarded.get("/v1/collections", headers=cookie)).json() == {"collections": []}


@pytest.mark.parametrize("headers", [OWN_PAGE, {"Origin": "http://127.0.0.1:8080"}], ids=str)
async def test_the_own_page_changes_things(guarded: httpx.AsyncClient, headers: dict[str, str]) -> None:
    cookie = cookie_of(await sign_in(guarded, created(guarded)[1], **headers)) | headers
    assert (await guarded.post("/v1/collections", json={"name": "own"}, headers=cookie)).status_code == 201
    assert (await guarded.delete("/v1/collections/own", headers=cookie)).status_code == 204


async def test_signing_out(guarded: httpx.AsyncClient) -> None:
    key = created(guarded)[1]
    cookie, other = cookie_of(await sign_in(guarded, key)), cookie_of(await sign_in(guarded, key))
    response = await guarded.delete("/v1/sign-in", headers=cookie | OWN_PAGE)
    assert response.status_code == 204
    (morsel,) = SimpleCookie(response.headers["set-cookie"]).values()
    assert (morsel.key, morsel.value, morsel["max-age"], morsel["path"]) == ("rag-sign-in-8080", "", "0", "/")
    gone = await guarded.get("/v1/sign-in", headers=cookie)
    assert (gone.status_code, gone.json()["code"]) == (401, "signed_out")
    assert "Sign in again" in gone.json()["detail"]
    assert (await guarded.get("/v1/sign-in", headers=other)).status_code == 200, "another browser's"
    for headers in ({}, cookie, {"Cookie": "rag-sign-in-8080=x"}):
        assert (await guarded.delete("/v1/sign-in", headers=headers)).status_code == 204, "nothing to end"
    assert (await guarded.get("/v1/sign-in")).json()["code"] == "key_required"


async def test_it_ends_with_its_time_and_its_key(guarded: httpx.AsyncClient) -> None:
    key_id, key = created(guarded)
    cookie, other = cookie_of(await sign_in(guarded, key)), cookie_of(await sign_in(guarded, key))
    redis = guarded.pipeline.redis  # type: ignore[attr-defined]
    redis.pexpire(record_of(other), 1)
    async with asyncio.timeout(10):
        while redis.exists(record_of(other)):
            await asyncio.sleep(0.01)
    assert (await guarded.get("/v1/sessions", headers=other)).status_code == 401
    assert (await guarded.get("/v1/sessions", headers=cookie)).status_code == 200
    guarded.pipeline.api_keys.revoke(key_id)  # type: ignore[attr-defined]
    assert (await guarded.get("/v1/sessions", headers=cookie)).status_code == 401


async def test_the_local_key_too_until_it_is_another_one(guarded: httpx.AsyncClient) -> None:
    state = guarded._transport.app.state  # type: ignore[attr-defined]
    cookie = cookie_of(await sign_in(guarded, state.local_key))
    who = (await guarded.get("/v1/sign-in", headers=cookie)).json()
    assert who == {
        "tenant": "default",
        "person": "",
        "role": "admin",
        "collections": None,
        "key": "local",
        "key_name": None,
        "provider": None,
        "keeps_originals": False,
    }
    assert state.local_key not in guarded.pipeline.redis.get(record_of(cookie))  # type: ignore[attr-defined]
    state.local_key = state.local_key[:-1] + ("A" if state.local_key[-1] != "A" else "B")
    assert (await guarded.get("/v1/sign-in", headers=cookie)).status_code == 401


async def test_where_no_key_is_needed(client: httpx.AsyncClient) -> None:
    """One is signed in as who one says, else as anyone."""
    who = (await client.get("/v1/sign-in")).json()
    assert (who["tenant"], who["role"], who["key"], who["key_name"]) == ("default", "editor", "", None)
    cookie = cookie_of(await sign_in(client, created(client)[1]))
    assert (await client.get("/v1/sign-in", headers=cookie)).json()["tenant"] == TENANT
    client.pipeline.redis.delete(record_of(cookie), keys.API_KEYS)  # type: ignore[attr-defined]
    assert (await client.get("/v1/sign-in", headers=cookie)).json()["tenant"] == "default"


@pytest.mark.parametrize(("scheme", "secure"), [("https", True), ("http", False)])
def test_behind_a_proxy_the_cookie_is_for_https_alone(live_url: str, world: Any, scheme: str, secure: bool) -> None:
    with make_redis(world.redis_url) as redis:
        made, key = add_key(ApiKeys(redis), "test", TENANT)
        headers = {"X-Forwarded-Proto": scheme, "X-Forwarded-For": "10.0.0.9", "Host": "rag:443"}
        response = httpx.post(f"{live_url}/v1/sign-in", json={"key": key}, headers=headers)
        assert ("; Secure" in response.headers["set-cookie"]) is secure
        ApiKeys(redis).revoke(made.id)


async def test_the_path_is_that_of_the_proxy(guarded: httpx.AsyncClient) -> None:
    app = guarded._transport.app  # type: ignore[attr-defined]
    async with httpx.AsyncClient(
        transport=httpx.ASGITransport(app, root_path="/rag"), base_url="https://127.0.0.1"
    ) as below:
        response = await sign_in(below, created(guarded)[1])
    assert response.status_code == 200, response.text
    (morsel,) = SimpleCookie(response.headers["set-cookie"]).values()
    assert (morsel.key, morsel["path"], morsel["secure"]) == ("rag-sign-in", "/rag", True)


def test_signing_out_ends_the_streams_of_the_cookie(live_url: str, world: Any) -> None:
    """The answer waits in the middle, so that only the end of the sign-in can end the stream."""
    redis = make_redis(world.redis_url)
    made, key = add_key(ApiKeys(redis), "test", "default")
    cookie = cookie_of(httpx.post(f"{live_url}/v1/sign-in", json={"key": key}))
    world.stage.hold_at = 3
    seen: list[str] = []

    def read() -> None:
        body = {"stream": True, "question": "What jumps?", "collection": "animals"}
        with httpx.stream("POST", f"{live_url}/v1/query", json=body, headers=cookie | OWN_PAGE, timeout=60) as response:
            seen.extend(response.iter_lines())

    reader = threading.Thread(target=read)
    reader.start()
    assert world.stage.waiting.wait(30)
    assert httpx.delete(f"{live_url}/v1/sign-in", headers=cookie | OWN_PAGE).status_code == 204
    reader.join(25)
    assert not reader.is_alive(), "the worker still waits"
    assert "event: passages" in seen
    assert not {"event: done", "event: error"} & set(seen)
    world.stage.open.set()
    ApiKeys(redis).revoke(made.id)
    redis.close()
