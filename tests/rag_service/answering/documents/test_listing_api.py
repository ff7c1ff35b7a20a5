"""Questions for a list of documents over HTTP: answered from the search, without the model."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import httpx
import pytest

from retriever import Library, SourceDocument
from tests.support.hash_embedder import HashEmbedder

QUESTION = {"question": "Which documents mention hotels?", "collection": "policies", "seed": 7}
TEXTS = {"travel": "Hotels cost 140 euros.", "late": "Ring the hotels bell.", "leave": "Parental leave takes a year."}
SAID = "2 of 3 documents mention “hotels”:\n- late (passages: 1)\n- travel (passages: 1)"


@pytest.fixture(scope="module", autouse=True)
def policies(data_dir: Any) -> Any:
    library = Library(data_dir, HashEmbedder())
    sources = [SourceDocument(document_id=key, text=text) for key, text in TEXTS.items()]
    library.create("policies").ingest(sources)
    yield
    library.delete("policies")
    library.close()


async def ask(client: httpx.AsyncClient, **changes: Any) -> dict[str, Any]:
    response = await client.post("/v1/query", json={**QUESTION, **changes})
    assert response.status_code == 200, response.text
    answer: dict[str, Any] = response.json()
    return answer


async def test_every_document_is_named_and_cited(client: httpx.AsyncClient, world: Any) -> None:
    answer = await ask(client, abstain="refuse")
    assert world.stage.prompts == [], "no model ran"
    assert answer["answer"] == SAID
    assert (answer["support"], answer["calibrated"], answer["abstained"], answer["note"]) == (1.0, True, None, None)
    assert answer["grounded"] is True
    assert [passage["document_id"] for passage in answer["passages"]] == ["late", "travel"]
    cited = {}
    for one in answer["citations"]:
        text = (await client.get(f"/v1/collections/policies/documents/{one['document_id']}")).json()["text"]
        line = answer["answer"][one["answer_start"] : one["answer_end"]]
        cited[line] = text[one["source_start"] : one["source_end"]].lower()
    assert cited == {"- late (passages: 1)": "hotels", "- travel (passages: 1)": "hotels"}
    assert answer["usage"]["prompt_tokens"] == 0
    again = (await client.get(f"/v1/answers/{answer['answer_id']}")).json()
    assert again["answer"] == SAID


async def test_what_nobody_mentions(client: httpx.AsyncClient) -> None:
    answer = await ask(client, question="Which documents mention zebras?")
    assert answer["answer"] == "None of the 3 documents mentions “zebras”."
    assert answer["citations"] == answer["passages"] == []
    assert answer["note"] is None


async def test_all_or_any_of_several_words(client: httpx.AsyncClient) -> None:
    both = await ask(client, question="Which documents mention parental leave and a year?")
    assert both["answer"].startswith("1 of 3 documents mention “parental leave” and “a year”:\n- leave")
    none = await ask(client, question="Which documents mention hotels and leave?")
    assert none["answer"] == "None of the 3 documents mentions “hotels” and “leave”."
    either = await ask(client, question="Which documents mention the bell or parental leave?")
    assert [passage["document_id"] for passage in either["passages"]] == ["late", "leave"]
    apart = await ask(client, question="Which documents mention parental leave or the bell?")
    assert apart["answer"].startswith("2 of 3 documents have the words “parental leave” or “the bell” in one passage:")


async def test_it_is_a_turn_like_others(client: httpx.AsyncClient, world: Any) -> None:
    first = await ask(client)
    after = await ask(client, question="What do hotels cost in euros?", session_id=first["session_id"])
    assert after["turn"] == 2
    prompt = world.tokens.decode(world.stage.prompts[-1])
    assert prompt.count("- travel (passages: 1)") == 1
    assert prompt.index("Which documents mention hotels?") < prompt.index("- travel") < prompt.index("140 euros")
    assert "(No passages.)" not in prompt
    edited = await client.post(f"/v1/answers/{first['answer_id']}/edits", json={"instruction": "As a sentence."})
    assert edited.status_code == 200
    assert edited.json()["answer"] == world.stage.text


async def test_streams_and_openai_clients_get_it(client: httpx.AsyncClient, parse: Callable[[str], Any]) -> None:
    events = parse((await client.post("/v1/query", json={**QUESTION, "stream": True})).text)
    assert "".join(data["text"] for _, name, data in events if name == "token") == SAID
    assert events[-1][2]["answer"] == SAID
    body = {"model": "rag:policies", "messages": [{"role": "user", "content": QUESTION["question"]}]}
    message = (await client.post("/v1/chat/completions", json=body)).json()["choices"][0]["message"]
    assert message["content"] == SAID
    assert len(message["annotations"]) == 2


async def test_other_questions_and_formats_go_to_the_model(client: httpx.AsyncClient, world: Any) -> None:
    for changes in (
        {"question": "What do the hotels cost?"},
        {"retrieval": {"mode": "none"}},
        {"question": "Mention the hotels of which documents?"},
    ):
        assert (await ask(client, **changes))["answer"] == world.stage.text
