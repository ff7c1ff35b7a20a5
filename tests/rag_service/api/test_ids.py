"""Ids and bounds in addresses and queries: what does not fit names nothing, and no key but its own is touched."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from workers.broker import keys

HUGE = "9" * 20
BAD_IDS = ["x:turns", "{id}:events", "{id}:turns", "{id}%20", "a%0Ab", "%00", "*", "x" * 5000, "%E2%80%AE", "É"]


async def asked(client: httpx.AsyncClient) -> dict[str, Any]:
    answer = await client.post("/v1/query", json={"question": "What jumps?", "collection": "animals"})
    found: dict[str, Any] = answer.json()
    return found


async def test_a_session_is_erased_by_its_own_id_alone(client: httpx.AsyncClient) -> None:
    session_id = (await asked(client))["session_id"]
    for suffix in ("turns", "answers", "ids", "parts", "claim"):
        assert (await client.delete(f"/v1/sessions/{session_id}:{suffix}")).status_code == 404
    session = await client.get(f"/v1/sessions/{session_id}")
    assert len(session.json()["turns"]) == 1


@pytest.mark.parametrize("bad", BAD_IDS)
@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/v1/answers/{bad}"),
        ("GET", "/v1/answers/{bad}/events"),
        ("GET", "/v1/answers/{bad}/versions"),
        ("DELETE", "/v1/answers/{bad}"),
        ("POST", "/v1/answers/{bad}/edits"),
        ("GET", "/v1/sessions/{bad}"),
        ("DELETE", "/v1/sessions/{bad}"),
        ("GET", "/v1/jobs/{bad}"),
        ("DELETE", "/v1/jobs/{bad}"),
        ("GET", "/v1/collections/{bad}"),
        ("DELETE", "/v1/collections/{bad}"),
        ("GET", "/v1/collections/{bad}/documents"),
        ("GET", "/v1/collections/animals/documents/{bad}"),
        ("DELETE", "/v1/collections/animals/documents/{bad}"),
        ("GET", "/v1/models/{bad}"),
    ],
)
async def test_a_malformed_id_names_nothing(client: httpx.AsyncClient, method: str, path: str, bad: str) -> None:
    known = await asked(client)
    told = bad.replace("{id}", known["session_id" if "sessions" in path else "answer_id"])
    body = {"instruction": "Shorter."} if method == "POST" else None
    answer = await client.request(method, path.replace("{bad}", told), json=body)
    assert answer.status_code in (404, 422), answer.text
    assert (await client.get(f"/v1/answers/{known['answer_id']}")).status_code == 200


@pytest.mark.parametrize(
    "query",
    [
        "sessions?offset=" + HUGE,
        "sessions?limit=" + HUGE,
        "sessions?offset=-1",
        "sessions?offset=" + "9" * 5000,
        "jobs?limit=" + HUGE,
        "jobs?limit=0",
        "collections/animals/documents?limit=" + HUGE,
        "collections/animals/documents?after=" + "x" * 5000,
    ],
)
async def test_numbers_and_places_have_an_upper_bound(client: httpx.AsyncClient, query: str) -> None:
    answer = await client.get(f"/v1/{query}")
    assert (answer.status_code, answer.json()["code"]) == (422, "invalid_request")


@pytest.mark.parametrize("after", [HUGE, "-1", "1-", "0-0 ", "x", "1-1-1", "9" * 400])
async def test_an_event_id_is_an_event_id(client: httpx.AsyncClient, after: str) -> None:
    answer_id = (await asked(client))["answer_id"]
    answer = await client.get(f"/v1/answers/{answer_id}/events", headers={"Last-Event-ID": after})
    assert answer.status_code in (200, 204, 422), answer.text


@pytest.mark.parametrize("name", ["x:turns", "a b", "a\nb", "a\u00a0b", ":"])
def test_no_key_is_made_of_what_could_name_another(name: str) -> None:
    for make in (keys.answer, keys.answer_events, keys.session, keys.session_turns, keys.session_claim, keys.job):
        with pytest.raises(ValueError, match="is no id"):
            make("default", name)
        with pytest.raises(ValueError, match="is no id"):
            make(name, "x")


@pytest.mark.parametrize("path", ["/v1/collections/animals/", "/v1/collections/animals/documents/", "/v1/sessions/"])
async def test_a_path_with_a_slash_at_its_end_is_no_shorter_path(client: httpx.AsyncClient, path: str) -> None:
    for method in ("DELETE", "GET"):
        answer = await client.request(method, path)
        assert (answer.status_code, answer.headers.get("location")) == (404, None)
    assert (await client.get("/v1/collections/animals")).status_code == 200
