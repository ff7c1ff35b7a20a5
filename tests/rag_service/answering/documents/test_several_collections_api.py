"""Questions over several collections at once: passages and citations name theirs."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from rag_service.contract.collections import joined
from retriever import Library, SourceDocument
from tests.support.hash_embedder import HashEmbedder

ANIMALS_AND_HENS = "animals,hens"
QUESTION = {"question": "What does the hen jump over?", "collection": ["animals", "hens"], "seed": 7}
HENS = "The slow brown hen jumps over the sleeping cat in the morning, and over the gate at noon."


@pytest.fixture(scope="module", autouse=True)
def hens(data_dir: Any) -> Any:
    """A second collection, whose document has the name of one in the first."""
    library = Library(data_dir, HashEmbedder())
    library.create("hens").ingest([SourceDocument(document_id="foxes", text=HENS, title="Hens")])
    yield
    library.delete("hens")
    library.close()


async def ask(client: httpx.AsyncClient, **changes: Any) -> dict[str, Any]:
    response = await client.post("/v1/query", json={**QUESTION, **changes})
    assert response.status_code == 200, response.text
    answer: dict[str, Any] = response.json()
    return answer


async def test_passages_and_citations_name_their_collection(client: httpx.AsyncClient, world: Any) -> None:
    world.stage.text = "The slow brown hen jumps over the sleeping cat in the morning."
    answer = await ask(client)
    assert answer["collection"] == ANIMALS_AND_HENS
    assert {passage["collection"] for passage in answer["passages"]} == {"animals", "hens"}
    (cited,) = {(one["collection"], one["document_id"]) for one in answer["citations"] if one["kind"] == "copied"}
    assert cited == ("hens", "foxes")
    for one in answer["citations"]:
        path = f"/v1/collections/{one['collection']}/documents/{one['document_id']}"
        text = (await client.get(path)).json()["text"]
        if one["kind"] == "copied":
            copied = answer["answer"][one["answer_start"] : one["answer_end"]]
            assert text[one["source_start"] : one["source_end"]] == copied


async def test_the_session_goes_on_with_the_same_ones(client: httpx.AsyncClient, world: Any) -> None:
    world.stage.text = "Yes."
    first = await ask(client, collection="hens")
    both = await ask(client, collection=" hens , animals,hens", session_id=first["session_id"])
    assert both["collection"] == "hens,animals"
    follow_up = {"question": "And the fox, over what?", "session_id": first["session_id"]}
    after = (await client.post("/v1/query", json=follow_up)).json()
    assert after["collection"] == "hens,animals"
    shown = [(one["collection"], one["chunk_id"]) for one in after["passages"]]
    assert len(set(shown)) == len(shown)
    prompt = world.tokens.decode(world.stage.prompts[-1])
    assert prompt.count("sleeping cat") == 1
    assert prompt.count("quick brown fox jumps over the lazy dog") == 1, "another collection's chunk of the same id"


async def test_openai_clients_name_several(client: httpx.AsyncClient, world: Any) -> None:
    world.stage.text = "The slow brown hen jumps over the sleeping cat in the morning."
    body = {"model": f"rag:{ANIMALS_AND_HENS}", "messages": [{"role": "user", "content": QUESTION["question"]}]}
    message = (await client.post("/v1/chat/completions", json=body)).json()["choices"][0]["message"]
    links = [one["url_citation"] for one in message["annotations"]]
    assert any("/v1/collections/hens/documents/foxes#" in link["url"] for link in links)
    assert {link["title"] for link in links if "/hens/" in link["url"]} == {"Hens"}
    body["model"] = "rag:animals,,hens"
    assert (await client.post("/v1/chat/completions", json=body)).status_code == 404


@pytest.mark.parametrize(
    ("collection", "status", "says"),
    [
        (["animals", "nowhere"], 404, "nowhere"),
        ("animals,nowhere", 404, "nowhere"),
        ("animals,,hens", 422, "A name is empty"),
        ([], 422, "A name is empty"),
        ([1], 422, "string"),
        ([f"c{n}" for n in range(17)], 422, "at most 16"),
    ],
)
async def test_bad_names_are_refused(client: httpx.AsyncClient, collection: Any, status: int, says: str) -> None:
    response = await client.post("/v1/query", json={**QUESTION, "collection": collection})
    assert response.status_code == status
    assert says in response.text


def test_names_are_joined_once_each() -> None:
    assert joined(["b", "a", "b"]) == "b,a" == joined("b, a ,b")
    assert joined(None) is None
    assert joined("a") == "a"
