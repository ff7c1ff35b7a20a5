"""Support and abstaining over HTTP, with an engine that speaks from a script and says Yes or No when it is asked."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest

from retriever import Library
from tests.rag_service.conftest import WINDOW
from tests.support.fake_workers import FakeEngine, make_worker_context, running_worker
from tests.support.hash_embedder import HashEmbedder
from workers.broker.embedded_redis import EmbeddedRedis
from workers.support.calibration import ENGINE, Calibration, Logistic
from workers.tokens.tokenizer import Tokens
from workers.worker.supporter import Supporter

STATED = "The quick brown fox jumps over the lazy dog every morning before breakfast."
ASKED = {"question": "What does the quick brown fox jump over?", "collection": "animals", "seed": 7}
REFUSAL = "The documents do not say."


@dataclass
class Stage:
    """What the engine says."""

    tokens: Tokens
    text: str = STATED
    verdict: str = "Yes"
    checks: list[str] = field(default_factory=list)
    asked: int = 0
    """Prompts of answers."""

    def script(self, prompt: Sequence[int]) -> list[int]:
        return self.tokens.encode_content(self.verdict if self._is_check(prompt) else self.text).ids

    def before_step(self, sequence: Any) -> None:
        if not sequence.tokens:
            if self._is_check(sequence.prompt):
                self.checks.append(self.tokens.decode(sequence.prompt))
            else:
                self.asked += 1

    def _is_check(self, prompt: Sequence[int]) -> bool:
        return "Reply Yes or No" in self.tokens.decode(prompt)


@pytest.fixture(scope="module")
def working(tokens: Tokens, data_dir: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Stage, str]]:
    stage = Stage(tokens)
    engine = FakeEngine(tokens, stage.script, window=WINDOW, before_step=stage.before_step)
    with EmbeddedRedis(tmp_path_factory.mktemp("redis")) as server:
        library = Library(data_dir, HashEmbedder())
        place = make_worker_context(server.url, tokens, engine, library, data_dir / "uploads", kv_cache_bytes=2**20)
        evidence = Logistic(0.0, {"evidence": 2.0}, {"evidence": 0.4}, {"evidence": 0.2})
        check = Logistic(0.0, {"check": 5.0}, {"check": 0.0}, {"check": 1.0})
        own = Calibration("fake", "float32", ENGINE, "", evidence, check, 0.5, 0, ["en"])
        place.runtime.store.holds = lambda owner: True  # type: ignore[method-assign]  # the scripted engine has no rows
        place.supporter = Supporter(tokens, "fake", "float32", own)
        with running_worker(server.url, place, info={"model": "fake", "tokenizer": tokens.hash}):
            yield stage, server.url


@pytest.fixture
def stage(working: tuple[Stage, str]) -> Stage:
    stage = working[0]
    stage.text, stage.verdict, stage.asked = STATED, "Yes", 0
    stage.checks.clear()
    return stage


@pytest.fixture
async def client(
    stage: Stage, working: tuple[Stage, str], data_dir: Path, make_client: Callable[..., Any]
) -> AsyncIterator[httpx.AsyncClient]:
    async with make_client(working[1], data_dir) as client:
        yield client


async def ask(client: httpx.AsyncClient, **changes: Any) -> dict[str, Any]:
    response = await client.post("/v1/query", json={**ASKED, **changes})
    assert response.status_code == 200, response.text
    answer: dict[str, Any] = response.json()
    return answer


async def test_a_stated_answer_is_supported(client: httpx.AsyncClient, stage: Stage) -> None:
    answer = await ask(client)
    assert answer["answer"] == STATED
    assert answer["support"] > 0.9
    assert answer["grounded"] is True
    assert answer["abstained"] is None
    assert answer["note"] is None
    assert [(one["start"], one["end"]) for one in answer["sentences"]] == [(0, len(STATED))]
    assert {citation["support"] for citation in answer["citations"]} == {answer["support"]}
    assert {"evidence", "covered", "check"} <= set(answer["signals"])
    (check,) = stage.checks
    assert f'Question: "{ASKED["question"]}"\nProposed answer: "{STATED}"' in check
    assert check.count(STATED) == 2, "the passages are in the prompt of the check"


async def test_an_answer_that_says_the_opposite_is_not(client: httpx.AsyncClient, stage: Stage) -> None:
    stage.text = "The quick brown fox never jumps over the lazy dog."
    answer = await ask(client)
    assert answer["support"] < 0.5
    assert answer["grounded"] is False
    assert "probably do not state" in answer["note"]


async def test_what_is_not_calibrated_for_this_prompt_says_so(client: httpx.AsyncClient) -> None:
    assert (await ask(client))["calibrated"] is False


async def test_a_doubtful_answer_is_warned_of_by_default(client: httpx.AsyncClient, stage: Stage) -> None:
    stage.verdict = "No"
    answer = await ask(client)
    assert answer["answer"] == STATED
    assert answer["answerable"] < 0.5
    assert answer["abstained"] == "warned"
    assert "probably do not answer" in answer["note"]


@pytest.mark.parametrize(
    "text", ["What does the quick brown fox jump over?", "what does the quick brown fox jump over"]
)
async def test_the_question_is_no_answer(client: httpx.AsyncClient, stage: Stage, text: str) -> None:
    stage.text = text
    assert (await ask(client))["abstained"] == "warned"
    assert (await ask(client, abstain="refuse"))["answer"] == REFUSAL
    assert (await ask(client, abstain="off"))["answer"] == text


async def test_refuse_gives_a_refusal_and_the_session_has_what_was_shown(
    client: httpx.AsyncClient, stage: Stage
) -> None:
    stage.verdict = "No"
    answer = await ask(client, abstain="refuse")
    assert answer["answer"] == REFUSAL
    assert answer["abstained"] == "refused"
    assert answer["support"] is None
    assert answer["citations"] == []
    assert answer["grounded"] is False
    assert "no answer is given" in answer["note"]
    assert answer["finish_reason"] == "stop"
    session = (await client.get(f"/v1/sessions/{answer['session_id']}")).json()
    assert session["turns"][0]["answer"] == REFUSAL
    stage.verdict = "Yes"
    follow_up = await ask(client, session_id=answer["session_id"])
    prompt = (await client.get(f"/v1/answers/{follow_up['answer_id']}?prompt=true")).json()["prompt"]
    assert REFUSAL in [part["text"] for part in prompt if part["kind"] == "answer"]


async def test_a_refusal_of_the_models_own_is_nothing_to_check(client: httpx.AsyncClient, stage: Stage) -> None:
    stage.text, stage.verdict = REFUSAL, "No"
    answer = await ask(client)
    assert answer["answer"] == REFUSAL
    assert "found no answer" in answer["note"]
    assert (await ask(client, abstain="off"))["note"] != answer["note"]


async def test_nothing_of_a_refused_answer_is_streamed(
    client: httpx.AsyncClient, stage: Stage, parse: Callable[[str], Any]
) -> None:
    stage.verdict = "No"
    response = await client.post("/v1/query", json={**ASKED, "abstain": "refuse", "stream": True})
    events = parse(response.text)
    names = [name for _, name, _ in events]
    assert names[0] == "passages"
    assert names[-2:] == ["support", "done"]
    assert "".join(data["text"] for _, name, data in events if name == "token") == REFUSAL
    assert "fox jumps" not in "".join(str(data) for _, name, data in events if name in ("token", "support"))


async def test_an_answer_that_is_not_refused_comes_whole(
    client: httpx.AsyncClient, parse: Callable[[str], Any]
) -> None:
    response = await client.post("/v1/query", json={**ASKED, "abstain": "refuse", "stream": True})
    events = parse(response.text)
    assert "".join(data["text"] for _, name, data in events if name == "token") == STATED
    support = next(data for _, name, data in events if name == "support")
    assert support["abstained"] is None
    assert support["support"] == events[-1][2]["support"]


@pytest.mark.parametrize("changes", [{"abstain": "off"}, {"abstain": "refuse", "question": "Hello, thank you!"}])
async def test_off_and_greetings_are_never_refused_nor_warned_of(
    client: httpx.AsyncClient, stage: Stage, changes: dict[str, Any]
) -> None:
    stage.verdict = "No"
    answer = await ask(client, **changes)
    assert answer["answer"] == STATED
    assert answer["abstained"] is None


async def test_without_passages_there_is_no_support(client: httpx.AsyncClient, stage: Stage) -> None:
    answer = await ask(client, retrieval={"mode": "none"}, abstain="refuse")
    assert answer["answer"] == STATED
    assert (answer["support"], answer["answerable"], answer["sentences"], answer["abstained"]) == (None,) * 4
    assert stage.checks == []


async def test_edits_are_never_refused_and_the_model_is_not_asked(client: httpx.AsyncClient, stage: Stage) -> None:
    answer = await ask(client)
    stage.verdict = "No"
    stage.checks.clear()
    response = await client.post(f"/v1/answers/{answer['answer_id']}/edits", json={"instruction": "Say it again."})
    edited = response.json()
    assert edited["answer"] == STATED
    assert edited["abstained"] is None
    assert edited["support"] is not None
    assert stage.checks == []


async def test_support_and_refusals_are_the_same_without_speculation(client: httpx.AsyncClient, stage: Stage) -> None:
    for verdict in ("Yes", "No"):
        stage.verdict = verdict
        on, off = [await ask(client, speculation=way, abstain="refuse") for way in ("auto", "off")]
        same = ("answer", "support", "sentences", "answerable", "abstained", "citations", "signals")
        assert {name: on[name] for name in same} == {name: off[name] for name in same}


async def test_it_can_be_switched_off(
    working: tuple[Stage, str], stage: Stage, data_dir: Path, make_client: Callable[..., Any]
) -> None:
    stage.verdict = "No"
    async with make_client(working[1], data_dir, answers={"support": False, "abstain": "refuse"}) as client:
        answer = await ask(client)
    assert answer["answer"] == STATED
    assert answer["support"] is None
    assert stage.checks == []


async def test_openai_clients_get_it_too(client: httpx.AsyncClient, stage: Stage) -> None:
    stage.verdict = "No"
    body = {
        "model": "rag:animals",
        "messages": [{"role": "user", "content": ASKED["question"]}],
        "abstain": "refuse",
    }
    message = (await client.post("/v1/chat/completions", json=body)).json()["choices"][0]["message"]
    assert message["content"] == REFUSAL
    assert message["abstained"] == "refused"
    assert message["answerable"] < 0.5
    longer = {**body, "messages": [*body["messages"], message, *body["messages"]]}
    again = await client.post("/v1/chat/completions", json=longer)
    assert again.status_code == 200, again.text


async def test_forced_json_has_no_support(client: httpx.AsyncClient, stage: Stage) -> None:
    stage.text = '{"a": 1}'
    body = {
        "model": "rag:animals",
        "messages": [{"role": "user", "content": ASKED["question"]}],
        "response_format": {"type": "json_object"},
    }
    message = (await client.post("/v1/chat/completions", json=body)).json()["choices"][0]["message"]
    assert message["support"] is None
    assert stage.checks == []


async def test_usage_is_that_of_the_answer_alone(client: httpx.AsyncClient, stage: Stage) -> None:
    stage.verdict = "No"
    answers = [await ask(client, abstain=abstain) for abstain in ("off", "refuse")]
    assert answers[0]["usage"] == answers[1]["usage"]
    assert all(answer["timings"]["support"] > 0 for answer in answers)


async def test_a_question_with_braces_is_asked_as_it_is(client: httpx.AsyncClient, stage: Stage) -> None:
    await ask(client, question="What does {answer} of {the} fox jump over?")
    assert 'Question: "What does {answer} of {the} fox jump over?"' in stage.checks[0]


@pytest.mark.parametrize("value", ["never", 1, None])
async def test_another_word_is_rejected(client: httpx.AsyncClient, value: Any) -> None:
    response = await client.post("/v1/query", json={**ASKED, "abstain": value})
    assert response.status_code == (200 if value is None else 422)


@pytest.mark.parametrize("abstain", ["warn", "refuse"])
async def test_a_doubtful_answer_comes_with_the_nearest_sentence(
    client: httpx.AsyncClient, stage: Stage, abstain: str
) -> None:
    stage.text, stage.verdict = "The lazy cat sleeps.", "No"
    answer = await ask(client, abstain=abstain)
    nearest = answer["nearest"]
    assert answer["abstained"] == {"warn": "warned", "refuse": "refused"}[abstain]
    assert nearest["text"] == STATED
    (passage,) = [one for one in answer["passages"] if one["chunk_id"] == nearest["chunk_id"]]
    start, end = (nearest[name] - passage["source_start"] for name in ("source_start", "source_end"))
    assert passage["text"][start:end] == STATED
    assert [nearest[name] for name in ("title", "collection", "document_id")] == [
        passage[name] for name in ("title", "collection", "document_id")
    ]


async def test_an_answer_that_needs_no_check_has_no_nearest_sentence(client: httpx.AsyncClient, stage: Stage) -> None:
    assert (await ask(client))["nearest"] is None
    stage.verdict = "No"
    assert (await ask(client, abstain="off"))["nearest"] is None
    assert (await ask(client, retrieval={"mode": "none"}))["nearest"] is None
