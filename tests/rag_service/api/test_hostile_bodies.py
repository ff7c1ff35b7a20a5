"""One body cannot stop the API: what is large, deep or of another type is refused early, and away from the loop."""

from __future__ import annotations

import asyncio
import json
import threading
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi.exceptions import RequestValidationError
from pydantic import TypeAdapter

from rag_service.api import json_route, problems
from rag_service.contract import json_body
from rag_service.contract.schemas import AddDocuments, QueryRequest, SearchRequest
from rag_service.openai.schemas import ChatRequest, CompletionRequest, EmbeddingRequest

JSON = {"Content-Type": "application/json"}
DOCUMENTS = "/v1/collections/animals/documents"


async def refused(client: httpx.AsyncClient, path: str, body: bytes, headers: dict[str, str]) -> tuple[int, str]:
    answer = await client.post(path, content=body, headers=headers)
    found = answer.json()
    return answer.status_code, found.get("code") or found["error"]["code"]


ONES = [1] * 200_000


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        (QueryRequest, {"question": "x", "stop": ONES}),
        (QueryRequest, {"question": "x", "stop": ["x"] * 200_000}),
        (QueryRequest, {"question": "x", "logit_bias": {f"x{n}": "y" for n in range(200_000)}}),
        (QueryRequest, {"question": "x", "prediction": {"type": "content", "content": ONES}}),
        (SearchRequest, {"question": "x", "filter": {str(n): n for n in range(200_000)}}),
        (ChatRequest, {"model": "default", "messages": ONES}),
        (ChatRequest, {"model": "default", "messages": [{"role": "user", "content": "x"}], "tools": ONES}),
        (CompletionRequest, {"model": "default", "prompt": ["x"] * 200_000}),
        (CompletionRequest, {"model": "default", "prompt": [-1] * 200_000}),
        (CompletionRequest, {"model": "default", "prompt": [[-1] * 200_000] * 2}),
        (EmbeddingRequest, {"model": "x", "input": ["x"] * 200_000}),
        (AddDocuments, {"documents": [{"text": "x", "metadata": {str(n): n for n in range(200_000)}}]}),
    ],
    ids=lambda value: value.__name__ if isinstance(value, type) else "-".join(value),
)
def test_what_is_too_long_is_told_in_a_few_errors(kind: type, body: dict[str, Any]) -> None:
    with pytest.raises(RequestValidationError) as caught:
        json_route.validated(json.dumps(body).encode(), TypeAdapter(kind))
    assert len(caught.value.errors()) <= 100
    assert len(problems.explain(list(caught.value.errors()))) < 1000


def test_a_body_of_too_many_values_is_refused_whatever_its_fields() -> None:
    body = json.dumps({"model": "default", "metadata": [0] * (json_body.MAX_VALUES + 1), "messages": []}).encode()
    with pytest.raises(RequestValidationError, match="values"):
        json_route.validated(body, TypeAdapter(ChatRequest))


async def test_the_number_of_documents_is_checked_before_any_of_them(
    client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked_at: list[Any] = []
    monkeypatch.setattr(json_body, "check_json", looked_at.append)
    body = json.dumps({"documents": ONES}).encode()
    assert await refused(client, DOCUMENTS, body, JSON) == (413, "too_many_documents")
    assert not looked_at


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/query", {"question": "x", "top_k": -1}),
        ("/v1/chat/completions", {"model": "default", "messages": []}),
        ("/v1/embeddings", {"model": "x", "input": []}),
        ("/v1/collections", {"name": 5}),
        (DOCUMENTS, {"documents": [{"text": ""}]}),
    ],
)
async def test_bodies_are_validated_away_from_the_event_loop(
    client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch, path: str, body: dict[str, Any]
) -> None:
    threads: list[int] = []
    real = json_body.check_json

    def check(*args: Any) -> None:
        threads.append(threading.get_ident())
        real(*args)

    monkeypatch.setattr(json_body, "check_json", check)
    status, _ = await refused(client, path, json.dumps(body).encode(), JSON)
    assert status in (400, 422)
    assert threads
    assert threading.get_ident() not in threads


@pytest.mark.parametrize(
    ("path", "size", "headers", "status"),
    [
        ("/v1/query", 2 * 2**20 + 1, JSON, 413),
        ("/v1/query", 2 * 2**20 + 1, {"Content-Type": "multipart/x; boundary=x"}, 413),
        ("/v1/chat/completions", 2 * 2**20 + 1, {"Content-Type": "multipart/form-data; boundary=x"}, 413),
        ("/v1/collections/animals/search", 2 * 2**20 + 1, JSON, 413),
        (DOCUMENTS, 2 * 2**20 + 1, JSON, 400),  # within what documents may have, and no JSON
        (DOCUMENTS, 16 * 2**20 + 1, JSON, 413),
        (DOCUMENTS, 16 * 2**20 + 1, {"Content-Type": "multipart/x; boundary=x"}, 413),
        (DOCUMENTS, 16 * 2**20 + 1, {"Content-Type": "multipart/form-data; boundary=x"}, 400),
    ],
)
async def test_each_address_has_its_limit(
    client: httpx.AsyncClient, path: str, size: int, headers: dict[str, str], status: int
) -> None:
    assert (await refused(client, path, b"x" * size, headers))[0] == status


@pytest.mark.parametrize(
    "kind",
    [
        "text/plain",
        "text/plain; charset=utf-8",
        "application/x-www-form-urlencoded",
        "application/vnd.api+json",
        "multipart/x",
        "application/jsonx",
        "",
    ],
)
@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/query", {"question": "x"}),
        (DOCUMENTS, {"documents": [{"text": "from another site"}]}),
        pytest.param(
            "/v1/completions",
            {"model": "default", "prompt": "x"},
            marks=pytest.mark.decoder_only("a model server for chats continues no text"),
        ),
        ("/v1/collections", {"name": "from-another-site"}),
    ],
)
async def test_other_media_types_are_refused(
    client: httpx.AsyncClient, path: str, body: dict[str, Any], kind: str
) -> None:
    headers = {"Content-Type": kind} if kind else {}
    assert await refused(client, path, json.dumps(body).encode(), headers) == (415, "unsupported_media_type")


async def test_multipart_goes_to_documents_alone(client: httpx.AsyncClient) -> None:
    for path in ("/v1/query", "/v1/collections/animals/search", "/v1/embeddings"):
        answer = await client.post(path, files=[("files", ("a.txt", b"text"))])
        assert answer.status_code == 415


@pytest.mark.parametrize("kind", ["application/json; charset=utf-8", "Application/JSON", "application/json ;x=y"])
async def test_parameters_of_the_media_type_are_taken(client: httpx.AsyncClient, kind: str) -> None:
    body = json.dumps({"question": "What jumps?"}).encode()
    answer = await client.post("/v1/collections/animals/search", content=body, headers={"Content-Type": kind})
    assert answer.status_code == 200


async def test_uploads_go_to_the_jobs_folder_as_they_come(client: httpx.AsyncClient, world: Any) -> None:
    """The second part of a file comes only after the first lies in the folder; nothing is left of a form cut short."""
    head = b'--x\r\nContent-Disposition: form-data; name="files"; filename="a.txt"\r\n\r\n'
    folder: Path = world.data_dir / "uploads"
    before = set(folder.glob("*"))
    sizes: list[int] = []

    async def parts() -> Any:
        yield head + b"x" * 300_000
        yield b"x" * 100_000
        await asyncio.sleep(0)
        (new,) = set(folder.glob("*")) - before
        sizes.extend(path.stat().st_size for path in new.iterdir())
        yield b"and no end"

    headers = {"Content-Type": "multipart/form-data; boundary=x"}
    answer = await client.post(DOCUMENTS, content=parts(), headers=headers)
    assert answer.status_code == 400, answer.text
    assert sizes[0] >= 300_000
    assert set(folder.glob("*")) <= before  # an earlier form may have gone meanwhile
