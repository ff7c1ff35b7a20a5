"""Follow-ups over HTTP: looked for by what they mean, by their own words where that fails."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import Any

import httpx
import pytest
from langchain_core.messages import AIMessage, HumanMessage
from typer.testing import CliRunner

from rag_service.answering.names import NO_COLLECTION
from rag_service.answering.search.query_rewriter import BANNED, UNLIKELY_END, Rewriter
from rag_service.cli import app
from rag_service.client import Passages, RagClient
from rag_service.langchain import ChatRagService
from rag_service.langchain.metadata import response_metadata
from rag_service.mcp.answer import given
from retriever import Library, SourceDocument
from tests.support.hash_embedder import HashEmbedder
from workers.broker import keys
from workers.broker.messages import Segment, TurnRecord

FIRST = {"question": "What does the fox jump over?", "collection": "animals", "seed": 7}
MEANT = "When does the fox jump over the dog?"


async def ask(client: httpx.AsyncClient, question: str = "And when?", **changes: Any) -> dict[str, Any]:
    response = await client.post("/v1/query", json={**FIRST, "question": question, **changes})
    assert response.status_code == 200, response.text
    answer: dict[str, Any] = response.json()
    return answer


@pytest.fixture
async def session(client: httpx.AsyncClient) -> str:
    """A session with one turn."""
    return str((await ask(client, FIRST["question"]))["session_id"])


@pytest.fixture
def biases(world: Any, monkeypatch: pytest.MonkeyPatch) -> list[dict[int, float]]:
    """The logit biases of each rewriting that begins."""
    found: list[dict[int, float]] = []
    before = world.stage.before_step

    def watched(sequence: Any) -> None:
        if world.stage.rewrites_a_question(sequence.prompt) and not sequence.tokens:
            found.append(dict(sequence.params.logit_bias))
        before(sequence)

    monkeypatch.setattr(world.place.runtime._engine, "_before_step", watched)
    return found


async def test_a_follow_up_is_looked_for_by_what_it_means(
    client: httpx.AsyncClient, world: Any, session: str, parse: Callable[[str], Any]
) -> None:
    world.stage.rewritten = MEANT
    response = await client.post(
        "/v1/query", json={**FIRST, "question": "And when?", "session_id": session, "stream": True}
    )
    events = parse(response.text)
    assert events[0][2]["retrieval_query"] == MEANT
    done = events[-1][2]
    assert done["retrieval_query"] == MEANT
    assert done["timings"]["rewrite"] > 0
    assert done["search_note"] is None
    assert done["timings"]["search"] > 0
    assert done["question"] == "And when?"
    (asked,) = world.stage.rewrites
    assert "Question: What does the fox jump over?" in asked
    assert "Last question: And when?" in asked
    prompt = world.tokens.decode(world.stage.prompts[-1])
    assert MEANT in prompt, "the model reads what the follow-up means"
    assert "And when?" not in prompt
    turns = (await client.get(f"/v1/sessions/{session}")).json()["turns"]
    assert [turn["question"] for turn in turns] == [FIRST["question"], "And when?"], "the user's words"
    assert [turn["retrieval_query"] for turn in turns] == [FIRST["question"], MEANT]


@pytest.mark.decoder_only("a model server begins its replies itself, and is sent no biases of token ids")
async def test_the_model_completes_the_beginning_of_a_rewrite(
    client: httpx.AsyncClient, world: Any, session: str, biases: list[dict[int, float]]
) -> None:
    world.stage.rewritten = " the fox jump over in Spain?"
    answer = await ask(client, "And in Spain?", session_id=session)
    assert answer["retrieval_query"] == "What does the fox jump over in Spain?"
    world.stage.rewritten = " foxes jump over the dog?"
    answer = await ask(client, "Why do they jump?", session_id=session)
    assert answer["retrieval_query"] == "Why do foxes jump over the dog?"
    asked = [prompt.splitlines()[-1] for prompt in world.stage.rewrites]
    assert asked == ["What does", "Why do"]
    forms = [ids[0] for form in ("they", " they") if len(ids := world.tokens.encode_content(form).ids) == 1]
    assert biases == [{}, dict.fromkeys(forms, BANNED)]
    assert forms, "or nothing is tested"


@pytest.mark.decoder_only("a model server begins its replies itself, and is sent no biases of token ids")
async def test_a_question_that_lacks_nothing_goes_on_or_stays(
    client: httpx.AsyncClient, world: Any, session: str, biases: list[dict[int, float]]
) -> None:
    world.stage.rewritten = " over the dog?"
    answer = await ask(client, "how high is the jump", session_id=session)
    assert answer["retrieval_query"] == "how high is the jump over the dog?"
    world.stage.rewritten = "?"
    answer = await ask(client, "How wide is the river?", session_id=session)
    assert answer["retrieval_query"] == "How wide is the river?"
    assert [prompt.splitlines()[-1] for prompt in world.stage.rewrites] == [
        "how high is the jump",
        "How wide is the river",
    ]
    mark = world.tokens.encode_content("?").ids[0]
    assert [one[mark] for one in biases] == [UNLIKELY_END, UNLIKELY_END]
    assert all(one[end] == UNLIKELY_END for one in biases for end in world.tokens.eos_ids)


async def test_a_follow_up_to_a_collection_that_is_gone_says_so(client: httpx.AsyncClient, world: Any) -> None:
    """It was answered from `default`, and nobody was told."""
    with contextlib.closing(Library(world.data_dir, HashEmbedder())) as library:
        library.create("fleeting").ingest([SourceDocument(name="f.md", document_id="f", text="The fox jumps at dawn.")])
    first = await ask(client, FIRST["question"], collection="fleeting")
    follow_up = {"question": "And when?", "session_id": first["session_id"]}
    answered = (await client.post("/v1/query", json=follow_up)).json()
    assert {passage["collection"] for passage in answered["passages"]} == {"fleeting"}
    assert (await client.delete("/v1/collections/fleeting")).status_code == 204
    refused = await client.post("/v1/query", json=follow_up)
    assert refused.status_code == 409
    assert refused.json()["code"] == "collection_gone"
    assert "'fleeting'" in refused.json()["detail"]


async def test_the_passages_are_those_of_the_rewritten_question(
    client: httpx.AsyncClient, world: Any, session: str
) -> None:
    pipeline: Any = client.pipeline  # type: ignore[attr-defined]
    searched: list[tuple[str, list[tuple[str, str]]]] = []
    library = type(pipeline.library)
    find = library.find

    def watched(self: Any, names: list[str], question: str, *args: Any, **named: Any) -> Any:
        searched.append((question, list(named["candidates"])))
        return find(self, names, question, *args, **named)

    world.stage.rewritten = "Who walk over the bridge of Köln, the fox?"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(library, "find", watched)
        first = (await client.get(f"/v1/sessions/{session}")).json()["turns"][0]["passages"]
        await ask(client, "And the bridge of Köln, who?", session_id=session)
        meant, world.stage.rewritten = world.stage.rewritten, "What do many naïve café owners visit?"
        await ask(client, "What do many naïve café owners visit?", session_id=session)
    found = [("animals", passage["chunk_id"]) for passage in first]
    assert searched[0] == (meant, found), "the last turn's passages stay candidates"
    assert searched[1][0] == "What do many naïve café owners visit?"


async def test_only_what_needs_it_is_rewritten(client: httpx.AsyncClient, world: Any, session: str) -> None:
    world.stage.rewritten = MEANT
    question = "Who walks over the bridge of Köln?"
    answer = await ask(client, question, session_id=session)
    assert (answer["retrieval_query"], "rewrite" in answer["timings"]) == (question, False)
    assert "search" in answer["timings"]
    assert (await ask(client, "And when?"))["retrieval_query"] == "And when?", "nothing was said before"
    without = await ask(client, session_id=session, retrieval={"mode": "none"})
    assert without["retrieval_query"] is None
    edited = await client.post(f"/v1/answers/{answer['answer_id']}/edits", json={"instruction": "And shorter."})
    assert edited.json()["retrieval_query"] is None
    assert world.stage.rewrites == []


async def test_a_request_and_the_settings_can_turn_it_off(
    client: httpx.AsyncClient, world: Any, session: str, make_client: Callable[..., Any]
) -> None:
    world.stage.rewritten = MEANT
    off = {"session_id": session, "retrieval": {"rewrite": False}}
    assert (await ask(client, **off))["retrieval_query"] == "And when?"
    async with make_client(world.redis_url, world.data_dir, retrieval={"rewrite": False}) as other:
        assert (await ask(other, session_id=session))["retrieval_query"] == "And when?"
        on = {"session_id": session, "retrieval": {"rewrite": True}}
        assert world.stage.rewrites == []
        assert (await ask(other, **on))["retrieval_query"] == MEANT


@pytest.mark.parametrize(
    ("question", "meant"),
    [
        ("And for foxes?", "What does the fox jump over for foxes?"),
        ("Does that apply to foxes, too?", "What does the fox jump over for foxes?"),
        ("And cats?", "What does the fox jump over? And cats?"),
    ],
)
async def test_a_place_is_put_behind_the_question_before_if_the_model_rewrites_nothing(
    client: httpx.AsyncClient, world: Any, session: str, question: str, meant: str
) -> None:
    world.stage.rewritten = FIRST["question"]
    assert (await ask(client, question, session_id=session))["retrieval_query"] == meant


async def test_what_cannot_be_rewritten_keeps_its_own_words(
    client: httpx.AsyncClient, session: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def broken(self: Rewriter, job: Any) -> None:
        raise RuntimeError("out of order")

    monkeypatch.setattr(Rewriter, "_generated", broken)
    asked = "Does that apply to foxes, too?"
    assert (await ask(client, asked, session_id=session))["retrieval_query"] == f"{FIRST['question']} {asked}"


@pytest.mark.decoder_only("its engine is made to fail; failing model servers have tests of their own")
async def test_a_rewrite_that_fails_or_takes_too_long_is_not_used(
    client: httpx.AsyncClient,
    world: Any,
    session: str,
    make_client: Callable[..., Any],
    monkeypatch: pytest.MonkeyPatch,
    parse: Any,
) -> None:
    world.stage.rewritten = MEANT
    stage = type(world.stage)
    before = stage.before_step

    def broken(self: Any, sequence: Any) -> None:
        if self.rewrites_a_question(sequence.prompt):
            raise ValueError("out of order")
        before(self, sequence)

    engine = world.place.runtime._engine
    monkeypatch.setattr(engine, "_before_step", lambda sequence: broken(world.stage, sequence))
    answer = await ask(client, session_id=session)
    assert (answer["retrieval_query"], answer["status"]) == (f"{FIRST['question']} And when?", "succeeded")
    assert "rewriting this follow-up to stand alone failed" in answer["search_note"]

    def slow(self: Any, sequence: Any) -> None:
        if self.rewrites_a_question(sequence.prompt):
            self.waiting.set()
            assert self.open.wait(30)
        before(self, sequence)

    monkeypatch.setattr(engine, "_before_step", lambda sequence: slow(world.stage, sequence))
    async with make_client(world.redis_url, world.data_dir, retrieval={"rewrite_timeout": 0.2}) as impatient:
        asked = asyncio.create_task(ask(impatient, session_id=session))
        assert await asyncio.to_thread(world.stage.waiting.wait, 30)
        while len(impatient.pipeline.redis.smembers(keys.session_answers("default", session))) < 3:
            await asyncio.sleep(0.01)  # the answer itself is asked for, though the worker still rewrites
        world.stage.open.set()
        answer = await asked
    assert (answer["retrieval_query"], answer["status"]) == (f"{FIRST['question']} And when?", "succeeded")
    assert "rewriting this follow-up to stand alone took too long" in answer["search_note"]
    events = await client.get(f"/v1/answers/{answer['answer_id']}/events")
    assert parse(events.text)[0][2]["search_note"] == answer["search_note"], "told before the answer"


async def test_a_conversation_without_a_collection_goes_on_without_one(client: httpx.AsyncClient) -> None:
    """It got 409: the collection '' does not exist any more."""
    first = (await client.post("/v1/query", json={"question": "What jumps?"})).json()
    assert first["collection"] is None
    second = await client.post("/v1/query", json={"question": "And when?", "session_id": first["session_id"]})
    assert second.status_code == 200, second.text
    assert (second.json()["collection"], second.json()["turn"]) == (None, 2)
    assert second.json()["note"] == first["note"] == NO_COLLECTION


def test_the_remark_is_passed_on_wherever_answers_go(
    live_url: str, world: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def broken(self: Rewriter, job: Any) -> None:
        raise RuntimeError("out of order")

    monkeypatch.setattr(Rewriter, "_generated", broken)
    with RagClient(live_url) as rag:
        answer = rag.query("And when?", collection="animals", session_id=rag.query(**FIRST).session_id)
    remark = answer.search_note
    assert remark is not None
    assert response_metadata(answer, "m")["search_note"] == remark
    told = given(answer)
    assert told.search_note == remark
    assert f"Note: {remark}" in told.text()
    history = [HumanMessage(FIRST["question"]), AIMessage("The lazy dog."), HumanMessage("And when?")]
    message = ChatRagService(base_url=live_url, collection="animals").invoke(history)
    assert message.response_metadata["search_note"] == remark
    said = [("user", FIRST["question"]), ("assistant", "The lazy dog."), ("user", "And when?")]
    body = {"model": "rag:animals", "messages": [{"role": role, "content": text} for role, text in said]}
    (choice,) = httpx.post(f"{live_url}/v1/chat/completions", json=body).raise_for_status().json()["choices"]
    assert choice["message"]["search_note"] == remark
    body["messages"] += [choice["message"], {"role": "user", "content": "What jumps?"}]
    again = httpx.post(f"{live_url}/v1/chat/completions", json=body)
    assert again.status_code == 200, "a message can be sent back as it is"


async def test_asked_again_it_is_not_rewritten_again(client: httpx.AsyncClient, world: Any, session: str) -> None:
    """With speculation on and off, too: what is looked for is the same."""
    world.stage.rewritten = MEANT
    found = [
        await ask(client, session_id=session, apart=True, speculation=speculation, temperature=temperature)
        for speculation, temperature in (("auto", 0.0), ("off", 0.0), ("pld", 1.0))
    ]
    assert {answer["retrieval_query"] for answer in found} == {MEANT}
    assert len({str(answer["passages"]) for answer in found}) == 1
    assert len(world.stage.rewrites) == 1
    await ask(client, session_id=session)
    await ask(client, session_id=session)
    assert len(world.stage.rewrites) == 2, "the conversation is another one then"


async def test_rewriting_leaves_nothing_behind(client: httpx.AsyncClient, world: Any, session: str) -> None:
    world.stage.rewritten = MEANT
    pipeline: Any = client.pipeline  # type: ignore[attr-defined]
    before = set(pipeline.redis.keys("rag:*"))
    worker = pipeline.redis.hget(keys.session("default", session), "worker")
    answer = await ask(client, session_id=session)
    # The worker takes the answer out of the running ones after its last event, and looks for erased texts now and then.
    others = {*before, keys.RUNNING, keys.ERASED_PAUSE}
    more = {name for name in pipeline.redis.keys("rag:*") if name not in others}
    assert more == {f"rag:default:answer:{answer['answer_id']}{part}" for part in ("", ":events")}
    assert pipeline.redis.hget(keys.session("default", session), "worker") == worker
    assert pipeline.redis.hget(keys.session("default", session), "rewrite") == MEANT
    assert (await client.delete(f"/v1/sessions/{session}")).status_code == 204
    assert [name for name in pipeline.redis.keys("*") if session in name or answer["answer_id"] in name] == []
    assert await pipeline.retrieval._rewriter._cache.get("default", session, "x") is None
    await pipeline.retrieval._rewriter._cache.put("default", session, "x", "y")
    assert not pipeline.redis.exists(keys.session("default", session)), "an erased session stays erased"


@pytest.mark.decoder_only("a model server decodes in its own way: `exact` is refused")
async def test_its_job_belongs_to_no_session(client: httpx.AsyncClient, world: Any, session: str) -> None:
    pipeline: Any = client.pipeline  # type: ignore[attr-defined]
    jobs = []
    enqueue = pipeline.retrieval._rewriter._queue.enqueue_generate

    def watched(job: Any) -> None:
        jobs.append(job)
        enqueue(job)

    pipeline.retrieval._rewriter._queue.enqueue_generate = watched
    await ask(client, session_id=session, temperature=1.0, speculation="pld", stop=["fox"])
    (job,) = jobs
    assert (job.session_id, job.turn, job.rewrites) == ("", -1, session)
    assert (job.sampling.temperature, job.sampling.exact, job.sampling.stop) == (0.0, "strict", ["\n"])
    assert job.speculation.drafter == "auto", "the service's own, whatever the request names"


async def test_a_history_that_the_client_sends(client: httpx.AsyncClient, world: Any) -> None:
    world.stage.rewritten = MEANT
    said = [("user", FIRST["question"]), ("assistant", "The lazy dog."), ("user", "And when?")]
    messages = [{"role": role, "content": text} for role, text in said]
    body = {"model": "rag:animals", "messages": messages, "n": 2}
    response = await client.post("/v1/chat/completions", json=body)
    assert [choice["message"]["retrieval_query"] for choice in response.json()["choices"]] == [MEANT, MEANT]
    assert len(world.stage.rewrites) == 1, "choices share it"
    assert "Answer: The lazy dog." in world.stage.rewrites[0]
    body = {**body, "retrieval": {"rewrite": False}, "n": 1}
    (choice,) = (await client.post("/v1/chat/completions", json=body)).json()["choices"]
    assert choice["message"]["retrieval_query"] == "And when?"
    alone = {"model": "rag:animals", "messages": messages[-1:]}
    (choice,) = (await client.post("/v1/chat/completions", json=alone)).json()["choices"]
    assert choice["message"]["retrieval_query"] == "And when?"


def test_clients_and_the_command_line_show_it(live_url: str, world: Any) -> None:
    world.stage.rewritten = MEANT
    with RagClient(live_url) as rag:
        session = rag.query(**FIRST).session_id
        events = list(rag.stream("And when?", collection="animals", session_id=session, apart=True))
        assert isinstance(events[0], Passages)
        assert (events[0].retrieval_query, events[0].passages_left) == (MEANT, 0)
        answer = rag.query("And when?", collection="animals", session_id=session, apart=True)
        assert response_metadata(answer, "m")["retrieval_query"] == answer.retrieval_query == MEANT
        arguments = ["ask", "And when?", "-c", "animals", "--session", session, "--url", live_url]
        told = CliRunner().invoke(app, arguments)
        assert f"Looked for: {MEANT}" in told.stderr
        alone = CliRunner().invoke(app, ["ask", "What does the fox jump over?", "-c", "animals", "--url", live_url])
        assert "Looked for" not in alone.stderr


async def test_a_passage_that_left_the_window_may_come_back(client: httpx.AsyncClient, session: str) -> None:
    """The candidates are what the last turn found itself, not what it had from earlier ones."""
    from rag_service.answering.search.retrieval import QuestionInContext

    answer = Segment(kind="answer", key="a", text="Yes.")
    own = [{"chunk_id": "a:0"}, {"chunk_id": "b:0", "earlier": True}, {"chunk_id": "c:0", "in_prompt": False}]
    passages = [{"collection": "animals", **passage} for passage in own]
    turn = TurnRecord(answer_id="a", question="q", segments=[answer], passages=passages, created=0.0)
    assert QuestionInContext.in_session("And?", session, [turn]).candidates == [
        ("animals", "a:0"),
        ("animals", "c:0"),
    ]
