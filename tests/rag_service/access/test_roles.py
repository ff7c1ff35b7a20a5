"""What keys may: roles, collections and persons, over every route there is."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from rag_service.access.principal import ROLES, Principal
from tests.support.api_keys import add_key
from workers.broker import keys

TENANT = "roles"
CHANGES = {
    ("POST", "/v1/collections"),
    ("PATCH", "/v1/collections/{collection}"),
    ("DELETE", "/v1/collections/{collection}"),
    ("POST", "/v1/collections/{collection}/documents"),
    ("DELETE", "/v1/collections/{collection}/documents/{document_id}"),
    ("DELETE", "/v1/jobs/{job_id}"),
}
"""What readers may not."""
OF_ADMINS = {
    ("GET", "/v1/usage"),
    ("GET", "/v1/audit"),
    ("GET", "/v1/keys"),
    ("POST", "/v1/keys"),
    ("DELETE", "/v1/keys/{key_id}"),
}
"""What only admins may."""
OF_A_PERSON = ("/v1/answers/", "/v1/sessions/")
LISTS = {
    ("GET", "/v1/sessions"),
    ("DELETE", "/v1/sessions"),
    ("GET", "/v1/collections"),
    ("GET", "/v1/jobs"),
    ("GET", "/v1/models"),
    ("POST", "/v1/sign-in"),
    ("GET", "/v1/sign-in"),
    ("DELETE", "/v1/sign-in"),
    ("POST", "/v1/embeddings"),
}
"""What there is for everyone, whoever asks, with what they may see in it."""
PARAMETERS = {("DELETE", "/v1/sessions"): {"all": "true"}}
BODIES: dict[str, Any] = {
    "/v1/query": {"question": "What is green?", "collection": "secret"},
    "/v1/chat/completions": {"model": "rag:secret", "messages": [{"role": "user", "content": "What is green?"}]},
    "/v1/completions": {"model": "rag:secret", "prompt": "What is green?"},
    "/v1/messages": {
        "model": "rag:secret",
        "max_tokens": 20,
        "messages": [{"role": "user", "content": "What is green?"}],
    },
    "/v1/messages/count_tokens": {
        "model": "rag:secret",
        "messages": [{"role": "user", "content": "What is green?"}],
    },
    "/v1/embeddings": {"model": "all-minilm-l6-v2", "input": "green"},
    "/v1/keys": {"name": "another"},
    "/v1/collections": {"name": "secret"},
    "/v1/collections/{collection}": {"name": "other"},
    "/v1/collections/{collection}/search": {"question": "green"},
    "/v1/collections/{collection}/documents": {"documents": [{"id": "more", "text": "Kiwis are furry."}]},
    "/v1/answers/{answer_id}/edits": {"instruction": "Shorter."},
    "/v1/answers/{answer_id}/feedback": {"rating": "up"},
}


class Place:
    """A tenant with the collections `open` and `secret`, and what one person asked of `secret`."""

    def __init__(self, client: Any) -> None:
        self.client = client
        self.names: dict[str, str] = {}

    def key(self, **options: Any) -> dict[str, str]:
        made = add_key(self.client.pipeline.api_keys, "test", TENANT, **options)
        return {"Authorization": f"Bearer {made[1]}"}

    async def ask(self, method: str, path: str, headers: dict[str, str]) -> httpx.Response:
        """A request to a path as OpenAPI writes it, about `secret`."""
        response: httpx.Response = await self.client.request(
            method,
            path.format(**self.names),
            params=PARAMETERS.get((method, path)),
            json=self.body(path, headers) if method in ("POST", "PATCH") else None,
            headers=headers,
        )
        return response

    def body(self, path: str, headers: dict[str, str]) -> Any:
        key = headers["Authorization"].removeprefix("Bearer ")
        return {"key": key} if path == "/v1/sign-in" else BODIES.get(path)

    async def routes(self) -> list[tuple[str, str]]:
        """(method, path) of all below /v1, from the OpenAPI document."""
        described = (await self.client.get("/openapi.json")).json()["paths"]
        return [(method.upper(), path) for path, methods in described.items() for method in methods if "/v1" in path]


@pytest.fixture
async def place(world: Any, make_client: Any) -> AsyncIterator[Place]:
    async with make_client(world.redis_url, world.data_dir, open_without_key=False) as client:
        client.pipeline.redis.delete(keys.API_KEYS)
        made = Place(client)
        owner = made.key(person="ann", role="admin")
        for name in ("open", "secret"):
            created = await client.post("/v1/collections", json={"name": name}, headers=owner)
            assert created.status_code == 201
            body = {"documents": [{"id": "kiwi", "text": "Kiwis are green."}]}
            added = await client.post(f"/v1/collections/{name}/documents", json=body, headers=owner)
            job_id = added.json()["job_id"]
            async with asyncio.timeout(60):
                while (await client.get(f"/v1/jobs/{job_id}", headers=owner)).json()["status"] != "succeeded":
                    await asyncio.sleep(0.02)
        asked = {"question": "What is green?", "collection": "secret", "session_id": "talk"}
        answer = (await client.post("/v1/query", json=asked, headers=owner)).json()
        made.names = {
            "collection": "secret",
            "document_id": "kiwi",
            "job_id": job_id,
            "answer_id": answer["answer_id"],
            "session_id": "talk",
            "key_id": owner["Authorization"].split("_")[1],
            "model": "rag:secret",
        }
        yield made
        for name in ("open", "secret"):
            assert (await client.delete(f"/v1/collections/{name}", headers=owner)).status_code == 204
        await client.delete("/v1/sessions/talk", headers=owner)
        client.pipeline.redis.delete(keys.API_KEYS)


async def test_every_route_names_the_role_it_needs(place: Place) -> None:
    """A key with a role that is none gets nowhere; a route that names none in `deps` would let it in."""
    headers = place.key()
    redis = place.client.pipeline.redis
    key_id = headers["Authorization"].split("_")[1]
    record = json.loads(redis.hget(keys.API_KEYS, key_id))
    redis.hset(keys.API_KEYS, key_id, json.dumps({**record, "role": "nothing"}))
    routes = await place.routes()
    assert len(routes) > 20
    for method, path in routes:
        response = await place.ask(method, path, headers)
        assert response.status_code == 403, f"{method} {path} wants one of deps.READER and deps.EDITOR: {response.text}"


async def test_readers_change_nothing(place: Place) -> None:
    reader = place.key(person="ann", role="reader")
    for method, path in await place.routes():
        if method == "DELETE" and path.startswith("/v1/sessions"):  # their own; last
            continue
        response = await place.ask(method, path, reader)
        if (method, path) in CHANGES | OF_ADMINS:
            problem = response.json()
            assert (response.status_code, problem["code"]) == (403, "forbidden"), (method, path)
            role = "editor" if (method, path) in CHANGES else "admin"
            assert f"the role {role}" in problem["detail"]
        else:
            kept = response.is_success or response.json()["code"] == "no_original"  # RAG_KEEP_ORIGINALS is off
            assert kept, (method, path, response.text)
    assert (await place.ask("DELETE", "/v1/sessions/{session_id}", reader)).status_code == 204
    for path in ("/v1/sessions", "/v1/sessions/", "/v1/sessions?all=false"):  # as with an id that is empty
        response = await place.client.request("DELETE", path, headers=reader, follow_redirects=True)
        assert response.status_code == (404 if path.endswith("/") else 422), "nothing is erased by chance"
    assert (await place.ask("DELETE", "/v1/sessions", reader)).status_code == 200


async def test_other_collections_are_not_there_for_a_key_that_sees_some(place: Place) -> None:
    """Asked by another person, as an editor."""
    scoped = place.key(person="bob", collections=["open", "not-yet"])
    for method, path in await place.routes():
        response = await place.ask(method, path, scoped)
        where = (method, path, response.text)
        assert "secret" not in response.text or response.status_code == 404, where
        assert "Kiwis" not in response.text, where
        if (method, path) in LISTS:
            assert response.is_success, where
        else:
            forbidden = path == "/v1/collections" or (method, path) in OF_ADMINS
            assert response.status_code == (403 if forbidden else 404), where
    unknown = (await place.ask("GET", "/v1/collections/{collection}", scoped)).json()
    assert unknown["code"] == "unknown_collection"
    missing = await place.client.get("/v1/collections/not-yet", headers=scoped)
    assert missing.json()["detail"] == unknown["detail"].replace("secret", "not-yet"), "one looks like the other"
    listed = (await place.client.get("/v1/collections", headers=scoped)).json()["collections"]
    assert [one["name"] for one in listed] == ["open"]
    models = (await place.client.get("/v1/models", headers=scoped)).json()["data"]
    assert [one["id"] for one in models if one["id"].startswith("rag:")] == ["rag:open"]
    jobs = (await place.client.get("/v1/jobs?limit=1", headers=scoped)).json()["jobs"]
    assert [one["collection"] for one in jobs] == ["open"]
    assert (await place.client.post("/v1/collections", json={"name": "not-yet"}, headers=scoped)).status_code == 201
    assert (await place.client.delete("/v1/collections/not-yet", headers=scoped)).status_code == 204
    answered = await place.client.post(
        "/v1/query", json={"question": "What is green?", "collection": "open"}, headers=scoped
    )
    assert answered.json()["passages"][0]["document_id"] == "kiwi"


@pytest.mark.parametrize("other", [{"person": "eve", "role": "admin"}, {"person": "mallory", "role": "reader"}])
async def test_another_persons_sessions_and_answers_are_not_there(place: Place, other: dict[str, Any]) -> None:
    theirs = place.key(**other)
    routes = [(method, path) for method, path in await place.routes() if path.startswith(OF_A_PERSON)]
    assert len(routes) == 10
    for method, path in routes:
        response = await place.ask(method, path, theirs)
        assert response.status_code == 404, (method, path, response.text)
    assert (await place.client.get("/v1/sessions", headers=theirs)).json() == {"sessions": []}
    collections = (await place.client.get("/v1/collections", headers=theirs)).json()["collections"]
    assert [one["name"] for one in collections] == ["open", "secret"], "those are the tenant's"
    asked = {"question": "What is green?", "collection": "open", "session_id": "talk"}
    answer = (await place.client.post("/v1/query", json=asked, headers=theirs)).json()
    assert answer["turn"] == 1, "a session of their own with the same name"
    again = place.key(person="ann")
    mine = (await place.client.get("/v1/sessions/talk", headers=again)).json()
    assert [turn["answer_id"] for turn in mine["turns"]] == [place.names["answer_id"]]
    assert (await place.client.delete("/v1/sessions/talk", headers=theirs)).status_code == 204
    assert (await place.client.get("/v1/sessions/talk", headers=again)).status_code == 200


async def test_names_in_redis_tell_whose_it_is(place: Place) -> None:
    """Of nobody in particular they are those of earlier versions."""
    redis = place.client.pipeline.redis
    answer_id = place.names["answer_id"]
    assert redis.exists(f"rag:{TENANT}@ann:answer:{answer_id}", f"rag:{TENANT}@ann:session:talk") == 2
    assert not list(redis.scan_iter(f"rag:{TENANT}:answer:*"))
    assert list(redis.scan_iter(f"rag:{TENANT}:job:*"))
    assert Principal(TENANT).owner == keys.tenant_of(f"{TENANT}@ann") == TENANT


def test_roles_hold_what_lesser_ones_may() -> None:
    may = {role: [need for need in ("reader", "editor", "admin") if Principal(role=role).may(need)] for role in ROLES}
    assert may == {"reader": ["reader"], "editor": ["reader", "editor"], "admin": ["reader", "editor", "admin"]}
