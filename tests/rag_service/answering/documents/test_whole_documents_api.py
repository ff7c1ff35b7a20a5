"""Questions about one whole document: all its passages, in order."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from rag_service.prompting.documents import by_parts
from retriever import Library, SourceDocument
from tests.rag_service.conftest import WINDOW
from tests.support.hash_embedder import HashEmbedder

FILLING = "Nothing but filling words stand in this paragraph so that the chunk ends before the next heading. " * 2
PARTS = ("Trains", "Hotels", "Meals", "Taxis")
BODY = "\n\n".join(f"## {part}\n\nAbout {part.lower()}: {n} euros. {FILLING}" for n, part in enumerate(PARTS, 1))


@pytest.fixture(scope="module", autouse=True)
def guides(data_dir: Any) -> Any:
    library = Library(data_dir, HashEmbedder())
    sources = [
        SourceDocument(document_id="travel", title="Travel policy", text=BODY),
        SourceDocument(document_id="visit-a", title="Visitors of house A", text="Badges are blue."),
        SourceDocument(document_id="visit-b", title="Visitors of house B", text="Badges are red."),
        SourceDocument(document_id="old", title="On-call guide 2023", text="The pager is yellow."),
        SourceDocument(document_id="new", title="On-call guide 2024", text="The pager is green."),
    ]
    library.create("guides").ingest(sources)
    yield
    library.delete("guides")
    library.close()


async def ask(client: httpx.AsyncClient, question: str, **changes: Any) -> dict[str, Any]:
    body = {"question": question, "collection": "guides", "seed": 7, "max_tokens": 64, **changes}
    response = await client.post("/v1/query", json=body)
    assert response.status_code == 200, response.text
    answer: dict[str, Any] = response.json()
    return answer


def places(prompt: str) -> list[int]:
    return [prompt.index(f"About {part.lower()}") for part in PARTS]


@pytest.mark.parametrize("question", ["Please summarise the travel policy.", "Summarise travel-policy.md"])
async def test_the_document_is_read_in_order(client: httpx.AsyncClient, world: Any, question: str) -> None:
    answer = await ask(client, question, abstain="refuse")
    assert answer["answer"] == world.stage.text
    assert answer["abstained"] is None, "a document chosen by its name is not refused"
    assert {passage["document_id"] for passage in answer["passages"]} == {"travel"}
    starts = [passage["source_start"] for passage in answer["passages"]]
    assert starts == sorted(starts)
    assert len(starts) > 1
    prompt = world.tokens.decode(world.stage.prompts[-1])
    assert places(prompt) == sorted(places(prompt))
    assert "from the whole document" in prompt
    body = {"model": "rag:guides", "messages": [{"role": "user", "content": "Summarise the travel policy"}]}
    await client.post("/v1/chat/completions", json={**body, "max_tokens": 64})
    prompt = world.tokens.decode(world.stage.prompts[-1])
    assert places(prompt) == sorted(places(prompt))
    assert "from the whole document" in prompt


async def test_a_request_may_name_the_document(client: httpx.AsyncClient, world: Any) -> None:
    named = {"retrieval": {"document_id": "travel"}, "collection": ["animals", "guides"]}
    answer = await ask(client, "What does a taxi cost?", **named)
    assert {passage["document_id"] for passage in answer["passages"]} == {"travel"}
    assert len(answer["passages"]) > 1
    wrong = {"question": "What?", "collection": "guides", "retrieval": {"document_id": "nowhere"}}
    assert (await client.post("/v1/query", json=wrong)).status_code == 404


async def test_what_names_no_single_document_is_searched_for(client: httpx.AsyncClient) -> None:
    several = await ask(client, "Summarise the visitors page")
    assert len({passage["document_id"] for passage in several["passages"]}) > 1
    unknown = await ask(client, "Summarise the parking rules")
    assert len({passage["document_id"] for passage in unknown["passages"]}) > 1
    exact = await ask(client, "Summarise visitors of house B")
    assert [passage["document_id"] for passage in exact["passages"]] == ["visit-b"]
    newest = await ask(client, "Summarise the on-call guide")
    assert [passage["document_id"] for passage in newest["passages"]] == ["new"]


@pytest.mark.decoder_only("its window and counts are in the scripted tokenizer's tokens")
async def test_a_long_document_is_read_in_parts(
    client: httpx.AsyncClient, world: Any, parse: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(by_parts, "LONGEST", 850)
    world.stage.text = "About meals: 3 euros."
    body = {"question": "Summarise the travel policy", "collection": "guides", "max_tokens": WINDOW - 700}
    events = parse((await client.post("/v1/query", json={**body, "stream": True})).text)
    told = [(data["done"], data["total"]) for _, name, data in events if name == "parts"]
    assert told == [(1, 2), (2, 2)]
    done = events[-1][2]
    assert [passage["in_prompt"] for passage in done["passages"]] == [True, True]
    first, second, last = (world.tokens.decode(prompt) for prompt in world.stage.prompts[:3])
    assert "About trains" in first
    assert "About taxis" not in first
    assert "About taxis" in second
    assert "Write down, in up to four sentences" in first
    assert "Nothing but filling words" not in last, "the last prompt has the notes alone"
    assert last.count(world.stage.text) == 2
    assert {one["document_id"] for one in done["citations"]} == {"travel"}, (
        "what the notes say is cited from the document"
    )
    follow_up = {**body, "question": "And what do meals cost?", "session_id": done["session_id"], "max_tokens": 64}
    assert (await client.post("/v1/query", json=follow_up)).status_code == 200
    prompt = world.tokens.decode(world.stage.prompts[-1])
    assert prompt.count(world.stage.text) >= 3, "the session keeps notes and answer"


@pytest.mark.decoder_only("its window and counts are in the scripted tokenizer's tokens")
async def test_of_a_very_long_document_the_first_parts_are_read(
    client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(by_parts, "LONGEST", 850)
    monkeypatch.setattr(by_parts, "MOST", 1)
    answer = await ask(client, "Summarise the travel policy", max_tokens=WINDOW - 700)
    assert [passage["in_prompt"] for passage in answer["passages"]] == [True, False]
    assert answer["passages_dropped"] == 1


@pytest.mark.decoder_only("its window and counts are in the scripted tokenizer's tokens")
async def test_in_a_history_of_the_client_s_what_does_not_fit_is_left_out_at_the_end(
    client: httpx.AsyncClient, world: Any
) -> None:
    body = {"model": "rag:guides", "messages": [{"role": "user", "content": "Summarise the travel policy"}]}
    await client.post("/v1/chat/completions", json={**body, "max_tokens": WINDOW - 700})
    prompt = world.tokens.decode(world.stage.prompts[-1])
    assert "About trains" in prompt
    assert "About taxis" not in prompt
