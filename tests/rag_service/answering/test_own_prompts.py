"""Texts of a prompt for one request, and for one collection."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from rag_service.access.principal import Principal
from rag_service.contract.schemas import QueryRequest
from rag_service.errors import Forbidden

ASKED: dict[str, Any] = {"question": "What does the fox jump over?", "collection": "animals"}


async def prompt_of(client: httpx.AsyncClient, **changes: Any) -> str:
    """The prompt of an answer, as text."""
    answer = (await client.post("/v1/query", json={**ASKED, **changes})).json()
    parts = (await client.get(f"/v1/answers/{answer['answer_id']}?prompt=true")).json()["prompt"]
    return "".join(part["text"] for part in parts)


async def test_a_request_has_its_own_texts(client: httpx.AsyncClient) -> None:
    prompt = await prompt_of(client, prompt={"system": "Be a pirate.", "question": "Asked: {question}"})
    assert "Be a pirate." in prompt
    assert "Asked: What does the fox jump over?" in prompt
    assert "Be a pirate." not in await prompt_of(client)


async def test_a_collection_has_its_own_texts(world: Any, make_client: Any) -> None:
    collections = {"animals": {"system": "Be a parrot."}}
    async with make_client(world.redis_url, world.data_dir, prompt={"collections": collections}) as client:
        assert "Be a parrot." in await prompt_of(client)
        assert "Be a parrot." not in await prompt_of(client, retrieval={"mode": "none"}, collection=None)


@pytest.mark.parametrize(
    ("prompt", "said"),
    [({"sytem": "x"}, "no text sytem"), ({"question": "x"}, "{question}"), ({"passage": "{title}"}, "{text}")],
)
async def test_wrong_texts_are_rejected(client: httpx.AsyncClient, prompt: dict[str, str], said: str) -> None:
    response = await client.post("/v1/query", json={**ASKED, "prompt": prompt})
    assert response.status_code == 422
    assert response.json()["code"] == "invalid_prompt"
    assert said in response.json()["detail"]


async def test_a_reader_may_not(client: httpx.AsyncClient) -> None:
    readers = client.pipeline.of(Principal(role="reader"))  # type: ignore[attr-defined]
    with pytest.raises(Forbidden, match="needs the role editor"):
        await readers.answer(QueryRequest(**ASKED, prompt={"system": "Be a pirate."}))
    await readers.answer(QueryRequest(**ASKED))
