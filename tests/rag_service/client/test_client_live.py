"""The Python client against the API, a real Redis and a real worker: every call, blocking and not."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from rag_service.client import (
    AsyncRagClient,
    Conflict,
    Done,
    InvalidRequest,
    NotFound,
    Passages,
    RagClient,
    RagConnectionError,
    Token,
    Unauthorized,
    calls,
)
from rag_service.contract.file_names import sendable


def test_a_question_its_stream_and_its_follow_up(live_url: str, world: Any) -> None:
    with RagClient(live_url) as rag:
        first = rag.query("What jumps?", collection="animals", seed=5, retrieval={"top_k": 1})
        assert (first.answer, first.seed, first.finish_reason) == (world.stage.text, 5, "stop")
        assert first.citations
        assert first.citations[0].kind == "copied"
        events = list(rag.stream("And then?", session_id=first.session_id, stop=["lazy"]))
        assert isinstance(events[0], Passages)
        assert isinstance(events[-1], Done)
        text = "".join(event.text for event in events if isinstance(event, Token))
        assert text == events[-1].answer.answer == world.stage.text.partition("lazy")[0]
        assert events[-1].answer.turn == 2
        assert list(rag.resume(first.answer_id, events[-1].id)) == []
        seen = list(rag.resume(first.answer_id))
        assert "".join(event.text for event in seen if isinstance(event, Token)) == world.stage.text


def test_edits_versions_sessions(live_url: str, world: Any) -> None:
    with RagClient(live_url) as rag:
        base = rag.query("What jumps?", collection="animals")
        edited = rag.edit(base.answer_id, "Shorter.", max_tokens=3)
        assert (edited.base, edited.version, edited.finish_reason) == (base.answer_id, 2, "length")
        assert [version.answer_id for version in rag.versions(edited.answer_id)] == [base.answer_id, edited.answer_id]
        if world.engine == "decoder":
            assert rag.answer(base.answer_id, token_ids=True).token_ids
        else:
            with pytest.raises(InvalidRequest):
                rag.answer(base.answer_id, token_ids=True)
        assert not rag.cancel(base.answer_id)
        rated = rag.rate(edited.answer_id, "down", comment="Too short.")
        assert (rated.rating, rated.comment) == ("down", "Too short.")
        assert rag.feedback(edited.answer_id) == rated
        rag.withdraw_feedback(edited.answer_id)
        with pytest.raises(NotFound):
            rag.feedback(edited.answer_id)
        assert base.session_id in {session.session_id for session in rag.sessions()}
        assert [turn.answer_id for turn in rag.session(base.session_id).turns] == [base.answer_id, edited.answer_id]
        rag.erase_session(base.session_id)
        with pytest.raises(NotFound) as gone:
            rag.session(base.session_id)
    assert gone.value.code == "unknown_session"


def test_a_running_answer_is_cancelled(live_url: str, world: Any) -> None:
    world.stage.hold_at = 3
    with RagClient(live_url) as rag:
        stream = rag.stream("What jumps?", collection="animals")
        begun = next(stream)
        assert isinstance(begun, Passages)
        assert world.stage.waiting.wait(30)
        assert rag.cancel(begun.answer_id)
        world.wait_for_cancel()
        world.stage.open.set()
        *_, last = stream
        assert isinstance(last, Done)
        assert last.answer.finish_reason == "cancelled"


def test_files_and_texts_go_in_and_are_found(live_url: str, tmp_path: Path) -> None:
    (tmp_path / "whales.md").write_text("# Whales\n\nThe blue whale sings low songs.")
    (tmp_path / "broken.pdf").write_bytes(b"no pdf")
    told: list[tuple[int, int]] = []
    with RagClient(live_url) as rag:
        done = rag.ingest(
            "sea",
            [tmp_path / "whales.md", str(tmp_path / "broken.pdf")],
            texts=["Herrings swim in schools.", {"id": "tides", "title": "Tides", "text": "The moon pulls the sea."}],
            progress=lambda done, total: told.append((done, total)),
        )
        assert (done.total, done.done, [failure.name for failure in done.failures]) == (4, 4, ["broken.pdf"])
        assert told[-1] == (4, 4)
        assert "sea" in {collection.name for collection in rag.collections()}
        assert rag.collection("sea").documents == 3
        best = rag.search("sea", "moon pulls", top_k=1, mode="lexical")
        assert [passage.document_id for passage in best] == ["tides"]
        text = rag.document("sea", "tides").text
        assert text[best[0].source_start : best[0].source_end] == best[0].text
        assert len(rag.documents("sea", limit=2).documents) == 2
        rag.delete_document("sea", "tides")
        assert rag.collection("sea").documents == 2
        with pytest.raises(Conflict):
            rag.create_collection("sea")
        with pytest.raises(Conflict):
            rag.rename_collection("sea", "animals")
        assert rag.rename_collection("sea", "ocean") == rag.collection("ocean")
        rag.delete_collection("ocean")


def test_files_with_bad_names_fail_alone(live_url: str, tmp_path: Path) -> None:
    good, odd = tmp_path / "good.md", tmp_path / os.fsdecode(b"caf\xe9.md")
    for path in (good, odd):
        path.write_text("Text.")
    with RagClient(live_url) as rag:
        done = rag.ingest("odd-files", [tmp_path / ("x" * 5000), odd, good])
        assert (done.total, done.done) == (3, 3)
        assert [failure.name for failure in done.failures][1:] == ["caf\ufffd.md"]
        assert "too long" in done.failures[0].reason
        assert [document.name for document in rag.documents("odd-files").documents] == ["good.md"]
        rag.delete_collection("odd-files")


@pytest.mark.parametrize("name", ["x" * 5000 + ".md", "x" * 501, "bell\x07.md", "caf\udce9.md"])
def test_an_upload_with_a_bad_name_fails_alone(live_url: str, name: str) -> None:
    with RagClient(live_url) as rag:
        rag.create_collection("odd-parts")
        parts = [("files", (sendable(name), b"Text.")), ("files", ("good.md", b"Text."))]
        job = rag.send(calls.Call("POST", "/v1/collections/odd-parts/documents", files=parts))
        ended = rag.wait(job["job_id"])
        assert [failure.name for failure in ended.failures] == [sendable(name)[:500]]
        assert "rename the file" in ended.failures[0].reason
        assert [document.name for document in rag.documents("odd-parts").documents] == ["good.md"]
        rag.delete_collection("odd-parts")


def test_refusals_say_what_to_do(live_url: str) -> None:
    with RagClient(live_url) as rag:
        with pytest.raises(NotFound) as unknown:
            rag.query("What?", collection="nowhere")
        with pytest.raises(InvalidRequest, match="temperature"):
            list(rag.stream("What?", temperature=-1))
    assert unknown.value.code == "unknown_collection"
    with RagClient(live_url, "rag_notakey") as rag, pytest.raises(Unauthorized) as refused:
        rag.collections()
    assert refused.value.code == "invalid_key"
    with RagClient("http://127.0.0.1:9") as rag, pytest.raises(RagConnectionError, match="rag up"):
        rag.collections()


async def test_the_async_client_makes_the_same_calls(live_url: str, world: Any, tmp_path: Path) -> None:
    (tmp_path / "whales.md").write_text("# Whales\n\nThe blue whale sings low songs.")
    async with AsyncRagClient(live_url) as rag:
        done = await rag.ingest("deep", [tmp_path / "whales.md"], texts=["Herrings swim in schools."])
        assert (done.total, done.done, done.failures) == (2, 2, ())
        assert [passage.title for passage in await rag.search("deep", "whale songs", top_k=1)] == ["Whales"]
        assert (await rag.documents("deep")).next is None
        assert (await rag.rename_collection("deep", "deeper")).name == "deeper"
        await rag.delete_collection("deeper")
        assert "deeper" not in {collection.name for collection in await rag.collections()}
        base = await rag.query("What jumps?", collection="animals")
        assert base.answer == world.stage.text
        edited = await rag.edit(base.answer_id, "Shorter.")
        assert len(await rag.versions(base.answer_id)) == 2
        assert (await rag.answer(edited.answer_id)).base == base.answer_id
        assert not await rag.cancel(edited.answer_id)
        assert len((await rag.session(base.session_id)).turns) == 2
        await rag.erase_session(base.session_id)
        assert base.session_id not in {session.session_id for session in await rag.sessions()}
        with pytest.raises(NotFound):
            await rag.job("none")


def test_both_clients_have_the_same_calls() -> None:
    def calls(kind: type) -> set[str]:
        return {name for name in dir(kind) if not name.startswith("_")}

    assert calls(RagClient) == calls(AsyncRagClient)


@pytest.mark.parametrize("dots", [".", "..", "../../animals", "../../../v1/collections/animals"])
def test_an_id_of_dots_names_a_document_and_nothing_above_it(live_url: str, dots: str) -> None:
    with RagClient(live_url) as rag:
        before = rag.collection("animals").documents
        for call in (rag.document, rag.delete_document):
            with pytest.raises(NotFound):
                call("animals", dots)
        with pytest.raises(InvalidRequest, match=r"'\.\.'|without '/'"):
            rag.ingest("animals", texts=[{"id": dots, "text": "Nothing."}])
        assert rag.collection("animals").documents == before
