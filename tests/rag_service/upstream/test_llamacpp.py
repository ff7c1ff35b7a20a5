"""Answers of llama.cpp's own server with a small real model: text, citations, support and counts, streamed and not."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from decoder.models import default_models_dir
from rag_service.access import local_key
from rag_service.client import RagClient
from rag_service.client.calls import Call
from rag_service.client.events import Done, Token
from rag_service.contract.answer import Answer
from tests.support.peers.llamacpp_server import MODEL, WINDOW, llamacpp_server
from tests.support.stacks.real_stack import ROOT, started

pytestmark = [pytest.mark.full, pytest.mark.timeout(3000)]

QUESTIONS = {
    "What is the hotel limit per night in Zurich?": "210",
    "How many days before departure must trips be booked?": "14",
    "How much is paid per kilometre driven in a private car?": "0.23",
    "Within how many days must I hand in expense claims?": "30",
    "Which extension does the travel desk have?": "4410",
    "How long are backups kept?": "35 days",
    "How long are invoices and contracts kept?": "10 years",
    "After how many days are web server logs deleted?": "90",
    "Who can lift a legal hold?": "general counsel",
    "Which address do requests about personal data go to?": "privacy@tidewater.example",
    "On which day does an on-call shift start?": "Tuesday",
    "Within how many minutes does the primary acknowledge a page?": "10",
    "Which command rolls back a deployment?": "tide deploy rollback",
    "How is on-call duty paid per week?": "300",
    "How many days of paid leave does everybody have?": "28",
    "How long is the probation period?": "6 months",
    "How large is the learning budget of every employee?": "1,200",
    "Where do I come on the first day, and at what time?": "09:30",
    "What are the core hours?": "10:00",
    "How much acetone may be kept in one room?": "5 litres",
}
LEAST_RIGHT = 12
"""Answers with the word in question. The small model errs; this many show that it reads the passages."""


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RagClient]:
    """Of a service whose answers are llama.cpp's, over the sample documents."""
    settings = {
        "RAG_ENGINE": "openai",
        "RAG_UPSTREAM__MODEL": MODEL,
        "RAG_UPSTREAM__SERVER": "llama.cpp",
        "RAG_UPSTREAM__WINDOW": str(WINDOW),
        "RAG_CONCURRENCY": "1",
        "RAG_EMBEDDING_MODEL": "all-minilm-l6-v2",
    }
    folder = tmp_path_factory.mktemp("llamacpp")
    with llamacpp_server() as url:
        settings["RAG_UPSTREAM__URL"] = f"{url}/v1"
        with started(default_models_dir().resolve(), folder, settings) as stack:
            run = stack.until(stack.run_json, "the stack's start")
            with RagClient(run["url"], local_key.ensure(stack.data_dir)) as client:
                client.ingest("handbook", sorted((ROOT / "examples/documents").iterdir()))
                yield client


@pytest.fixture(scope="module")
def texts(client: RagClient) -> dict[str, str]:
    """Document id -> its text."""
    listed = client.documents("handbook").documents
    return {one.document_id: client.document("handbook", one.document_id).text for one in listed}


def check(answer: Answer, texts: dict[str, str]) -> None:
    assert answer.finish_reason == "stop"
    assert answer.speculation["engine"] == "upstream"
    assert answer.speculation["usage"] == "reported"
    assert answer.usage["completion_tokens"] > 0
    assert answer.support is not None
    assert 0 <= answer.support <= 1
    for cited in answer.citations or ():
        source = texts[cited.document_id][cited.source_start : cited.source_end]
        assert source
        if cited.kind == "copied":
            assert str(answer.answer)[cited.answer_start : cited.answer_end] == source


def test_twenty_questions_streamed_and_not(client: RagClient, texts: dict[str, str]) -> None:
    right = copied = 0
    for question, word in QUESTIONS.items():
        options: Any = {"collection": "handbook", "max_tokens": 100, "temperature": 0.0}
        *events, done = client.stream(question, **options)
        assert isinstance(done, Done)
        streamed = done.answer
        check(streamed, texts)
        assert "".join(event.text for event in events if isinstance(event, Token)) == streamed.answer
        whole = client.send(Call("POST", "/v1/query", Answer.model_validate, json={"question": question, **options}))
        check(whole, texts)
        assert whole.answer == streamed.answer
        right += word.lower() in str(whole.answer).lower()
        copied += any(cited.kind == "copied" for cited in whole.citations or ())
    assert right >= LEAST_RIGHT
    assert copied >= LEAST_RIGHT / 2
