"""Edits over HTTP: new versions, their prompts, citations and counts."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx
import pytest

from rag_service.contract.schemas import QueryRequest
from rag_service.prompting.template import Templates
from workers.broker.messages import ErrorEvent, TokenEvent, TokenOrigin
from workers.sessions.sessions import Sessions
from workers.sessions.streams import AnswerStream
from workers.sessions.token_log import read_log

QUESTION = {"question": "What does the fox jump over?", "collection": "animals", "seed": 7}
EDITED = "The quick brown fox jumps over the lazy dog every morning before breakfast. Then it rests."


async def post(client: httpx.AsyncClient, path: str, **body: Any) -> dict[str, Any]:
    response = await client.post(path, json=body)
    assert response.status_code == 200, response.text
    answer: dict[str, Any] = response.json()
    return answer


async def ask(client: httpx.AsyncClient, **changes: Any) -> dict[str, Any]:
    return await post(client, "/v1/query", **{**QUESTION, **changes})


async def edit(client: httpx.AsyncClient, answer: dict[str, Any], **changes: Any) -> dict[str, Any]:
    body = {"instruction": "Say that it rests.", "seed": 1, **changes}
    return await post(client, f"/v1/answers/{answer['answer_id']}/edits", **body)


async def job_of(client: httpx.AsyncClient, answer: dict[str, Any]) -> Any:
    return (await client.pipeline.answers.record(answer["answer_id"]))["job"]  # type: ignore[attr-defined]


async def test_an_edit_is_a_new_version_and_the_next_turn(client: httpx.AsyncClient, world: Any) -> None:
    first = await ask(client)
    assert (first["version"], first["base"], first["instruction"]) == (1, None, None)
    world.stage.text = EDITED
    second = await edit(client, first)
    assert second["answer"] == EDITED
    assert second["answer_id"] != first["answer_id"]
    assert (second["version"], second["base"], second["turn"]) == (2, first["answer_id"], 2)
    assert (second["question"], second["instruction"]) == (QUESTION["question"], "Say that it rests.")
    assert second["session_id"] == first["session_id"]
    assert second["collection"] == "animals"
    before, after = world.stage.prompts[-2:]
    answered = before + world.tokens.encode_content(first["answer"]).ids
    assert after[: len(answered)] == answered, "the prompt must only grow"
    text = world.tokens.decode(after)
    assert text.count("[Foxes") == len(first["passages"]), "passages that are there are not repeated"
    assert text.count(first["answer"]) == 2 + sum(first["answer"] in p["text"] for p in first["passages"])
    assert "Say that it rests." + Templates().of("Say that it rests.").edit.partition("{instruction}")[2] in text
    session = (await client.get(f"/v1/sessions/{first['session_id']}")).json()
    assert [(turn["base"], turn["instruction"]) for turn in session["turns"]] == [
        (None, None),
        (first["answer_id"], "Say that it rests."),
    ]
    assert (await client.get(f"/v1/answers/{second['answer_id']}")).json() == second
    sessions = (await client.get("/v1/sessions")).json()["sessions"]
    (listed,) = [one for one in sessions if one["session_id"] == first["session_id"]]
    assert (listed["turns"], listed["questions"], listed["question"]) == (2, 1, QUESTION["question"])


async def test_the_answer_stands_next_to_what_to_change_about_it(client: httpx.AsyncClient, world: Any) -> None:
    first = await ask(client)
    second = await edit(client, first)
    job = await job_of(client, second)
    assert [s.kind for s in job.segments[job.edit.segment : job.edit.segment + 3]] == [
        "edited", "instruction", "instruction",
    ]  # fmt: skip
    assert job.segments[job.edit.segment].key == first["answer_id"]
    assert job.segments[job.edit.segment + 2].text.startswith("Say that it rests.")


async def test_any_version_can_be_edited_and_any_id_lists_them(client: httpx.AsyncClient, world: Any) -> None:
    first = await ask(client)
    assert [v["version"] for v in await versions(client, first)] == [1]
    world.stage.text = EDITED
    second = await edit(client, first)
    world.stage.text = "It rests."
    third = await edit(client, first, instruction="Only the end.")
    fourth = await edit(client, third)
    for member in (first, second, third, fourth):
        listed = await versions(client, member)
        assert [v["answer_id"] for v in listed] == [a["answer_id"] for a in (first, second, third, fourth)]
    assert [v["version"] for v in listed] == [1, 2, 3, 4]
    assert [v["base"] for v in listed] == [None, first["answer_id"], first["answer_id"], third["answer_id"]]
    assert [v["instruction"] for v in listed][:3] == [None, "Say that it rests.", "Only the end."]
    assert [v["answer"] for v in listed][1:] == [EDITED, "It rests.", "It rests."]
    # An older version is quoted where it is edited, and there the drafter begins.
    job = await job_of(client, third)
    segment = job.segments[job.edit.segment]
    assert (segment.kind, segment.text, segment.ids) == (
        "edited",
        first["answer"],
        world.tokens.encode_content(first["answer"]).ids,
    )
    assert job.edit.segment >= job.new_from
    # Later it is part of the conversation, and another answer is under edit.
    job = await job_of(client, fourth)
    assert job.segments[job.edit.segment].key == third["answer_id"]
    assert fourth["turn"] == 4


async def test_an_edit_that_changes_nothing_says_so(client: httpx.AsyncClient, world: Any) -> None:
    first = await ask(client)
    world.stage.text = EDITED
    second = await edit(client, first)
    assert second["note"] is None
    third = await edit(client, second, instruction="Write it as it is.")
    assert third["answer"] == second["answer"]
    assert "Nothing was changed" in third["note"]
    assert (await client.get(f"/v1/answers/{third['answer_id']}")).json()["note"] == third["note"]


@pytest.mark.parametrize(
    ("text", "repeats"),
    [
        ("write it as a letter", True),
        ("WRITE IT AS A LITTER", True),
        ("Dear all, write it as a letter.", False),
        ("Write to us for a letter of the city.", False),
    ],
)
async def test_an_edit_that_only_repeats_what_was_asked_for_says_so(
    text: str, repeats: bool, client: httpx.AsyncClient, world: Any
) -> None:
    first = await ask(client)
    world.stage.text = text
    second = await edit(client, first, instruction="Write it as a letter.")
    assert second["answer"] == text
    assert ("only repeated" in (second["note"] or "")) == repeats


async def versions(client: httpx.AsyncClient, answer: dict[str, Any]) -> list[dict[str, Any]]:
    response = await client.get(f"/v1/answers/{answer['answer_id']}/versions")
    assert response.status_code == 200, response.text
    listed: list[dict[str, Any]] = response.json()["versions"]
    return listed


async def test_an_edit_streams_like_a_query(client: httpx.AsyncClient, world: Any, parse: Any) -> None:
    first = await ask(client)
    world.stage.text = EDITED
    response = await client.post(
        f"/v1/answers/{first['answer_id']}/edits", json={"instruction": "More.", "stream": True}
    )
    events = parse(response.text)
    assert events[0][1] == "passages"
    assert events[-1][1] == "done"
    done = events[-1][2]
    assert (done["answer"], done["version"], done["base"]) == (EDITED, 2, first["answer_id"])
    assert "".join(data["text"] for _, name, data in events if name == "token") == EDITED
    url = f"/v1/answers/{done['answer_id']}/events"
    assert parse((await client.get(url)).text) == events


async def test_citations_of_what_an_edit_left_alone_stay(client: httpx.AsyncClient, world: Any) -> None:
    first = await ask(client)
    (cited,) = first["citations"]
    world.stage.text = "To be clear: " + EDITED
    second = await edit(client, first)
    (kept,) = [c for c in second["citations"] if c["kind"] == "copied"]
    assert second["answer"][kept["answer_start"] : kept["answer_end"]] == first["answer"]
    for same in ("document_id", "chunk_id", "source_start", "source_end"):
        assert kept[same] == cited[same]


async def test_the_base_of_an_edit_brings_its_passages(client: httpx.AsyncClient, world: Any) -> None:
    first = await ask(client)
    await ask(client, session_id=first["session_id"], question="And else?", retrieval={"mode": "none"})
    world.stage.text = EDITED
    second = await edit(client, first)
    listed = {p["chunk_id"]: p for p in second["passages"]}
    for passage in first["passages"]:
        assert listed[passage["chunk_id"]] == passage
    if world.engine == "decoder":  # without `support` it is the share of copied tokens, which are other ones here
        assert second["grounded"] is True


async def test_answers_outside_a_session_are_edited_from_their_record(client: httpx.AsyncClient, world: Any) -> None:
    first = await ask(client)
    pipeline = client.pipeline  # type: ignore[attr-defined]
    turns_key = f"rag:default:session:{first['session_id']}:turns"
    pipeline.redis.delete(turns_key)  # as when it expired
    world.stage.text = EDITED
    second = await edit(client, first)
    assert (second["answer"], second["version"], second["base"]) == (EDITED, 2, first["answer_id"])
    before, after = world.stage.prompts[-2:]
    answered = before + world.tokens.encode_content(first["answer"]).ids
    assert after[: len(answered)] == answered
    assert pipeline.redis.llen(turns_key) == 0, "it stays apart from the session"
    third = await edit(client, second)
    assert third["version"] == 3
    prompts = world.stage.prompts
    assert prompts[-1][: len(prompts[-2])] == prompts[-2]
    follow_up = await ask(client, session_id=first["session_id"])
    assert follow_up["turn"] == 1


@pytest.mark.decoder_only("a model server does not say what it took of a prediction")
async def test_usage_counts_the_text_under_edit_as_a_prediction(client: httpx.AsyncClient, world: Any) -> None:
    first = await ask(client)
    assert "completion_tokens_details" not in first["usage"]
    second = await edit(client, first, speculation="off")
    assert set(second["usage"]["completion_tokens_details"]) == {
        "accepted_prediction_tokens",
        "rejected_prediction_tokens",
    }


@pytest.mark.decoder_only("its window and counts are in the scripted tokenizer's tokens")
async def test_an_edit_has_room_for_the_whole_answer(client: httpx.AsyncClient, world: Any, make_client: Any) -> None:
    async with make_client(world.redis_url, world.data_dir, answers={"max_tokens": 20}) as small:
        first = await ask(small, max_tokens=200)
        assert first["finish_reason"] == "stop"
        second = await edit(small, first)
        assert (second["finish_reason"], second["answer"]) == ("stop", first["answer"])
        assert (await job_of(small, second)).sampling.max_tokens == first["usage"]["completion_tokens"] - 1 + 10
        assert (await edit(small, first, max_tokens=5))["finish_reason"] == "length"


async def test_what_cannot_be_edited_is_refused(client: httpx.AsyncClient, world: Any) -> None:
    pipeline = client.pipeline  # type: ignore[attr-defined]

    async def refused(answer_id: str, status: int, code: str, **body: Any) -> httpx.Response:
        response = await client.post(f"/v1/answers/{answer_id}/edits", json={"instruction": "Shorter.", **body})
        assert (response.status_code, response.json()["code"]) == (status, code), response.text
        return response

    await refused("nothing", 404, "unknown_answer")
    assert (await client.get("/v1/answers/nothing/versions")).status_code == 404
    done = await ask(client)
    for body, named in (
        ({"instruction": " \n"}, "instruction is empty"),
        ({"instruction": 5}, "instruction"),
        ({"question": "x"}, "no field 'question'"),
        ({"logit_bias": {"999999": 1}}, "logit_bias"),
    ):
        response = await refused(done["answer_id"], 422, "invalid_request", **body)
        assert named in response.json()["detail"]
    await refused(done["answer_id"], 413, "instruction_too_long", instruction="x" * 9000)
    world.stage.hold_at = 7
    running = await pipeline.answer(QueryRequest(**QUESTION))
    assert await asyncio.to_thread(world.stage.waiting.wait, 30)
    response = await refused(running, 409, "answer_running")
    assert int(response.headers["retry-after"]) > 0
    await client.delete(f"/v1/answers/{running}")
    await asyncio.to_thread(world.wait_for_cancel)
    world.stage.open.set()
    assert (await pipeline.answers.finished(running)).finish_reason == "cancelled"
    await refused(running, 409, "not_editable")
    world.stage.hold_at, world.stage.text = None, " \n"
    empty = await ask(client)
    assert "empty" in (await refused(empty["answer_id"], 409, "not_editable")).json()["detail"]


async def test_a_failed_answer_cannot_be_edited(client: httpx.AsyncClient, world: Any) -> None:
    world.stage.hold_at = 4
    pipeline = client.pipeline  # type: ignore[attr-defined]
    answer_id = await pipeline.answer(QueryRequest(**QUESTION))
    assert await asyncio.to_thread(world.stage.waiting.wait, 30)
    AnswerStream(pipeline.redis, "default", answer_id).finish(ErrorEvent(code="out_of_memory", detail="ask for less"))
    world.stage.open.set()
    response = await client.post(f"/v1/answers/{answer_id}/edits", json={"instruction": "Shorter."})
    assert (response.status_code, response.json()["code"]) == (409, "not_editable")


async def test_erasing_a_session_erases_its_versions(client: httpx.AsyncClient, world: Any) -> None:
    first = await ask(client)
    second = await edit(client, first)
    redis = client.pipeline.redis  # type: ignore[attr-defined]
    assert (await client.delete(f"/v1/sessions/{first['session_id']}")).status_code == 204
    left = [key for key in redis.keys("rag:default:*") if any(a["answer_id"] in key for a in (first, second))]
    assert left == []
    assert not redis.keys(f"rag:default:session:{first['session_id']}*")


async def test_a_session_that_was_edited_is_followed_up(client: httpx.AsyncClient, world: Any) -> None:
    first = await ask(client)
    world.stage.text = EDITED
    second = await edit(client, first)
    world.stage.text = "Every morning."
    follow_up = await ask(client, session_id=first["session_id"], question="When?")
    assert follow_up["turn"] == 3
    before, after = world.stage.prompts[-2:]
    assert after[: len(before)] == before
    turns = Sessions(client.pipeline.redis).turns("default", first["session_id"])  # type: ignore[attr-defined]
    assert [turn.answer_id for turn in turns][1:] == [second["answer_id"], follow_up["answer_id"]]


@pytest.mark.parametrize("how", ["off", "auto"])
async def test_an_edit_of_an_old_version_does_not_see_newer_ones(
    client: httpx.AsyncClient, world: Any, how: str
) -> None:
    """The model took the newest version for the one to change, because it stood nearer."""
    first = await ask(client)
    world.stage.text = "IN CAPITALS."
    await edit(client, first, instruction="Write it in capital letters.")
    between = await ask(client, session_id=first["session_id"], question="And the cat?")
    world.stage.text = EDITED
    third = await edit(client, first, speculation=how)
    job = await job_of(client, third)
    assert not [s for s in job.segments if "CAPITALS" in s.text or "cat?" in s.text or "capital letters" in s.text]
    assert (third["answer"], third["turn"], third["base"]) == (EDITED, 4, first["answer_id"])
    world.stage.text = "Every morning."
    followed = await ask(client, session_id=first["session_id"], question="When?")
    assert followed["turn"] == 5
    job = await job_of(client, followed)
    answers = [s for s in job.segments if s.kind == "answer"]
    assert [s.text for s in answers] == [first["answer"], "IN CAPITALS.", "IN CAPITALS.", EDITED], "all, in order"
    assert answers[2].key == between["answer_id"]
    assert all(s.ids == world.tokens.encode_content(s.text).ids for s in answers), "as they were generated"
    redis = client.pipeline.redis  # type: ignore[attr-defined]
    log = read_log(redis, "default", first["session_id"])
    assert log is not None
    assert log.epoch == 1, "the log goes on, as the conversation does"
    asked, kept = world.stage.prompts[-1], list(log.ids)
    assert world.tokens.decode(kept).startswith(world.tokens.decode(asked))
    if not world.settings:  # a model server divides the text into tokens itself
        assert kept[: len(asked)] == asked


async def test_token_events_say_what_was_copied_from_the_text_under_edit(client: httpx.AsyncClient) -> None:
    from rag_service.api.sse import source_of

    first = await ask(client)
    second = await edit(client, first)
    job = await job_of(client, second)
    origin = TokenOrigin(drafter="auto", segment=job.edit.segment, offset=3)
    source = source_of(TokenEvent(t=0, ids=[1], text="x", sources=[origin]), job)
    assert source is not None
    assert source["kind"] == "edited"


@pytest.mark.parametrize("how", ["off", "auto", "pld"])
async def test_edits_do_not_depend_on_speculation(client: httpx.AsyncClient, world: Any, how: str) -> None:
    first = await ask(client)
    world.stage.text = EDITED
    made = await edit(client, first, speculation=how)
    assert made["answer"] == EDITED
    assert [c["kind"] for c in made["citations"]] == ["copied"]
