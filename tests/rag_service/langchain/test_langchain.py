"""The LangChain classes against the API, a real Redis and a real worker: what the standard tests do not look at."""

from __future__ import annotations

import asyncio
import json
from typing import Any, cast

import pytest
from langchain_core.exceptions import OutputParserException
from langchain_core.load import dumpd, load
from langchain_core.messages import AIMessage, AIMessageChunk, HumanMessage, SystemMessage, ToolMessage
from langchain_core.messages.content import Citation
from langchain_core.output_parsers import StrOutputParser
from langchain_core.runnables import Runnable
from pydantic import BaseModel, SecretStr, ValidationError

from rag_service.client import InvalidRequest, NotFound, RagClient, RagConnectionError
from rag_service.client.errors import AnswerFailed
from rag_service.client.events import ServerEvent
from rag_service.langchain import ChatRagService, RagServiceLLM, RagServiceRetriever
from rag_service.langchain.conversation import CompletionChunks, completion

pytestmark = pytest.mark.usefixtures("own_folder")

BETA = pytest.mark.filterwarnings("ignore:The function `load` is in beta")
ASKED = HumanMessage("What jumps?")


@pytest.fixture
def chat(live_url: str) -> ChatRagService:
    return ChatRagService(base_url=live_url, collection="animals")


@pytest.fixture
def llm(live_url: str) -> RagServiceLLM:
    return RagServiceLLM(base_url=live_url, collection="animals")


@pytest.fixture
def retriever(live_url: str) -> RagServiceRetriever:
    return RagServiceRetriever(base_url=live_url, collection="animals")


def citations(message: AIMessage) -> list[Citation]:
    (block,) = [block for block in message.content_blocks if block["type"] == "text"]
    return [cast(Citation, annotation) for annotation in block.get("annotations", [])]


def check_citations(message: AIMessage, url: str) -> None:
    """Offsets select the cited text on both sides."""
    copied = [citation for citation in citations(message) if citation["extras"]["kind"] == "copied"]
    assert copied
    with RagClient(url) as rag:
        for citation in copied:
            extras = citation["extras"]
            text = rag.document("animals", extras["document_id"]).text
            assert text[extras["source_start"] : extras["source_end"]] == citation["cited_text"]
            assert message.text[citation["start_index"] : citation["end_index"]] == citation["cited_text"]
            assert citation["title"] == "Foxes"


async def test_an_answer_carries_its_citations_and_how_it_was_made(
    chat: ChatRagService, live_url: str, world: Any
) -> None:
    told = [chat.invoke([ASKED]), await chat.ainvoke([ASKED])]
    for message in told:
        assert message.content == world.stage.text
        check_citations(message, live_url)
        known = message.response_metadata
        assert (known["model_name"], known["finish_reason"], known["turn"]) == ("rag:animals", "stop", 1)
        if world.engine == "decoder":
            assert known["speculation"]["mat"] > 1
        else:
            assert known["speculation"]["engine"] == "upstream"
        with RagClient(live_url) as rag:
            assert rag.answer(known["answer_id"]).session_id == known["session_id"]
        assert json.loads(json.dumps(known)) == known
        assert message.usage_metadata is not None
        assert message.usage_metadata["output_tokens"] > 0
    assert told[0].response_metadata["session_id"] != told[1].response_metadata["session_id"]


@pytest.mark.parametrize("history", [[ASKED], [SystemMessage("Be short."), ASKED]])
@pytest.mark.parametrize("version", ["v0", "v1"])
async def test_a_stream_adds_up_to_the_answer(
    chat: ChatRagService, live_url: str, world: Any, history: list[Any], version: str
) -> None:
    chat = ChatRagService(base_url=live_url, collection="animals", output_version=version)
    chunks = list(chat.stream(history))
    async_chunks = [chunk async for chunk in chat.astream(history)]
    for pieces in (chunks, async_chunks):
        assert len(pieces) > 3
        whole = pieces[0]
        for piece in pieces[1:]:
            whole += piece
        assert isinstance(whole, AIMessageChunk)
        assert whole.text == world.stage.text
        check_citations(whole, live_url)
        assert isinstance(whole.content, str if version == "v0" else list)
        assert whole.response_metadata["finish_reason"] == "stop"
        assert whole.usage_metadata == chat.invoke(history).usage_metadata


def test_content_of_version_1_holds_the_citations(live_url: str) -> None:
    message = ChatRagService(base_url=live_url, collection="animals", output_version="v1").invoke([ASKED])
    (block,) = message.content
    assert isinstance(block, dict)
    assert block["annotations"][0]["type"] == "citation"
    check_citations(message, live_url)


def test_a_session_remembers_and_a_history_is_sent(chat: ChatRagService, live_url: str, world: Any) -> None:
    first = chat.invoke([ASKED])
    session = first.response_metadata["session_id"]
    second = chat.invoke([ASKED, first, HumanMessage("And then?")], session_id=session)
    assert second.response_metadata["turn"] == 2
    with RagClient(live_url) as rag:
        assert [turn.question for turn in rag.session(session).turns] == ["What jumps?", "And then?"]
        before = len(rag.sessions(limit=1000))
        world.stage.prompts.clear()
        third = chat.invoke([SystemMessage("Be kind."), ASKED, AIMessage("A fox."), HumanMessage("Over what?")])
        assert len(rag.sessions(limit=1000)) == before, "a history that the client keeps begins no session"
    check_citations(third, live_url)
    prompt = world.tokens.decode(world.stage.prompts[-1])
    places = [prompt.index(text) for text in ("Be kind.", "What jumps?", "A fox.", "Over what?")]
    assert places == sorted(places)
    with pytest.raises(ValueError, match="leave session_id out"):
        chat.invoke([SystemMessage("Be kind."), ASKED], session_id=session)
    with pytest.raises(ValueError, match="human message last"):
        chat.invoke([ASKED, AIMessage("A fox.")], session_id=session)


def test_no_collection_means_no_retrieval(live_url: str) -> None:
    for history in ([ASKED], [SystemMessage("Be short."), ASKED]):
        message = ChatRagService(base_url=live_url).invoke(history)
        assert message.response_metadata["model_name"] == "default"
        assert not message.response_metadata.get("passages")
        assert citations(message) == []


def test_options_come_as_fields_and_with_calls(live_url: str, world: Any) -> None:
    chat = ChatRagService(
        base_url=live_url, collection="animals", seed=7, max_tokens=5, stop=["lazy"], retrieval={"top_k": 1},
        model_kwargs={"min_p": 0.1}, speculation="off", top_p=0.9,
    )  # fmt: skip
    for history in ([ASKED], [SystemMessage("Be short."), ASKED]):
        short = chat.invoke(history)
        assert short.response_metadata["finish_reason"] == "length"
        assert len(short.response_metadata["passages"]) == 1
        if world.engine == "decoder":
            assert short.response_metadata["speculation"]["drafter"] in ("off", "plain")
        longer = chat.invoke(history, max_tokens=100, speculation="casd", prediction="The quick brown fox")
        assert longer.text == world.stage.text.partition("lazy")[0]
        if world.engine == "decoder":
            assert longer.response_metadata["speculation"]["drafter"] == "casd"
        assert chat.invoke(history, stop=["brown"], max_tokens=100).text == "The quick "
        with pytest.raises(InvalidRequest, match="temperature"):
            chat.invoke(history, temperature=9.0)
        with pytest.raises(InvalidRequest, match="no_such"):
            chat.invoke(history, no_such=1)
    assert chat.invoke([ASKED]).response_metadata["seed"] == 7
    assert chat.bind(collection=None).invoke([ASKED]).response_metadata["passages"] == []
    assert chat.invoke([ASKED], model="rag:animals").response_metadata["collection"] == "animals"
    with pytest.raises(NotFound):
        chat.invoke([ASKED], model="rag:nowhere")


@pytest.mark.parametrize("history", [[ASKED], [SystemMessage("Be short."), ASKED]])
@pytest.mark.parametrize("blocking", [True, False])
async def test_an_answer_nobody_reads_on_is_cancelled(
    chat: ChatRagService, world: Any, history: list[Any], blocking: bool
) -> None:
    world.stage.hold_at = 3
    if blocking:
        stream = chat.stream(history)
        await asyncio.to_thread(next, stream)
        assert await asyncio.to_thread(world.stage.waiting.wait, 30)
        closing = asyncio.create_task(asyncio.to_thread(stream.close))  # type: ignore[attr-defined]
    else:
        async_stream = chat.astream(history)
        await anext(async_stream)
        assert await asyncio.to_thread(world.stage.waiting.wait, 30)
        closing = asyncio.create_task(async_stream.aclose())  # type: ignore[attr-defined]
    await asyncio.to_thread(world.wait_for_cancel)
    world.stage.open.set()
    await closing


class Jump(BaseModel):
    """A jump."""

    who: str
    times: int


def test_structured_output_is_whole_or_an_error(chat: ChatRagService, world: Any) -> None:
    world.stage.text = '{"who": "fox", "times": 3}'
    assert chat.with_structured_output(Jump).invoke([ASKED]) == Jump(who="fox", times=3)
    as_dict = chat.with_structured_output(Jump.model_json_schema())
    assert as_dict.invoke([ASKED]) == {"who": "fox", "times": 3}
    (*_, last) = as_dict.stream([ASKED])
    assert last == {"who": "fox", "times": 3}
    told = chat.with_structured_output(Jump, include_raw=True).invoke([ASKED])
    assert (told["parsed"], told["parsing_error"]) == (Jump(who="fox", times=3), None)
    assert told["raw"].text == world.stage.text
    short = ChatRagService(base_url=chat.base_url, collection="animals", max_tokens=8)
    with pytest.raises(OutputParserException, match="max_tokens"):
        short.with_structured_output(Jump.model_json_schema()).invoke([ASKED])
    told = short.with_structured_output(Jump, include_raw=True).invoke([ASKED])
    assert told["parsed"] is None
    assert "max_tokens" in str(told["parsing_error"])
    with pytest.raises(InvalidRequest) as refused:
        chat.with_structured_output(
            {"title": "bad", "type": "object", "properties": {"who": {"type": "thing"}}}
        ).invoke([ASKED])
    assert refused.value.code == "invalid_schema"
    with pytest.raises(ValueError, match="takes no tools"):
        chat.with_structured_output(Jump, tools=[])


def test_what_is_no_text_is_refused_before_it_is_sent(chat: ChatRagService) -> None:
    image = HumanMessage([{"type": "image_url", "image_url": {"url": "data:,"}}])
    with pytest.raises(ValueError, match="image_url"):
        chat.invoke([image])
    parts = HumanMessage([{"type": "text", "text": "What "}, {"type": "text", "text": "jumps?"}])
    assert chat.invoke([parts]).text


def test_the_body_of_a_history() -> None:
    history = [
        SystemMessage("S"),
        HumanMessage("H", name="ann"),
        AIMessage([{"type": "text", "text": "A", "annotations": []}]),
        ToolMessage("T", tool_call_id="1"),
    ]
    body = completion(history, "rag:c", {"seed": 1, "prediction": "P"})
    assert body == {
        "model": "rag:c",
        "messages": [
            {"role": "system", "content": "S"},
            {"role": "user", "content": "H", "name": "ann"},
            {"role": "assistant", "content": "A"},
            {"role": "tool", "content": "T", "tool_call_id": "1"},
        ],
        "seed": 1,
        "prediction": {"type": "content", "content": "P"},
        "stream": True,
        "stream_options": {"include_usage": True},
    }


def test_a_completion_that_fails_or_breaks_off_is_an_error() -> None:
    chunks = CompletionChunks("default")
    assert chunks.add(ServerEvent(None, "message", {"choices": [{"delta": {"content": "x"}}]})) == ["x"]
    with pytest.raises(RagConnectionError, match="ended before"):
        chunks.ending()
    with pytest.raises(AnswerFailed, match="Ask for less") as failed:
        chunks.add(ServerEvent(None, "message", {"error": {"message": "Ask for less.", "code": "out_of_memory"}}))
    assert failed.value.code == "out_of_memory"


async def test_the_language_model_answers_and_streams(llm: RagServiceLLM, world: Any) -> None:
    text = world.stage.text
    assert llm.invoke("What jumps?") == await llm.ainvoke("What jumps?") == text
    assert "".join(llm.stream("What jumps?")) == text
    assert "".join([piece async for piece in llm.astream("What jumps?")]) == text
    assert len(list(llm.stream("What jumps?"))) > 3
    assert llm.invoke("What jumps?", stop=["lazy"]) == text.partition("lazy")[0]
    assert llm.batch(["What jumps?", "Who?"]) == await llm.abatch(["What jumps?", "Who?"]) == [text, text]
    (*_, last) = llm._stream("What jumps?")
    assert last.generation_info is not None
    assert last.generation_info["citations"]
    chain: Runnable[Any, str] = llm | StrOutputParser()
    assert chain.invoke("What jumps?") == text
    assert llm.bind(max_tokens=1).invoke("What jumps?") == "The"
    with pytest.raises(NotFound):
        llm.invoke("What jumps?", collection="nowhere")


def test_callbacks_of_the_language_model_see_every_piece(llm: RagServiceLLM, world: Any) -> None:
    from langchain_core.callbacks import BaseCallbackHandler

    class Ear(BaseCallbackHandler):
        heard = ""

        def on_llm_new_token(self, token: Any, **_: Any) -> None:
            self.heard += token

    ear = Ear()
    list(llm.stream("What jumps?", config={"callbacks": [ear]}))
    assert ear.heard == world.stage.text


async def test_documents_say_where_they_stand(retriever: RagServiceRetriever, live_url: str) -> None:
    found = retriever.invoke("quick brown fox")
    assert [document.id for document in await retriever.ainvoke("quick brown fox")] == [d.id for d in found]
    first = found[0].metadata
    assert set(first) == {
        "collection", "document_id", "chunk_id", "title", "date", "page", "heading", "source_start", "source_end",
        "score", "rank", "rerank_score",
    }  # fmt: skip
    assert (first["collection"], first["document_id"], first["rank"]) == ("animals", "foxes", 1)
    with RagClient(live_url) as rag:
        text = rag.document("animals", "foxes").text
    assert text[first["source_start"] : first["source_end"]] == found[0].page_content
    assert retriever.invoke("fox", mode="lexical", filter={"no": "such"}) == []
    with RagClient(live_url) as rag:
        text = rag.document("animals", "foxes").text
    for wide in (retriever.invoke("fox", neighbours=5), await retriever.ainvoke("fox", neighbours=5)):
        assert [document.page_content for document in wide] == [text[: len(wide[0].page_content)]]
        assert "Köln" in wide[0].page_content
        assert "breakfast" in wide[0].page_content
    with pytest.raises(NotFound):
        retriever.invoke("fox", collection="nowhere")
    with pytest.raises(TypeError, match="not top_k"):
        retriever.invoke("fox", top_k=3)
    with pytest.raises(ValidationError):
        RagServiceRetriever(k=0)


@BETA
@pytest.mark.parametrize("name", ["ChatRagService", "RagServiceLLM", "RagServiceRetriever"])
def test_objects_are_written_down_without_their_key_and_read_again(
    package: Any, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    kind: type[ChatRagService | RagServiceLLM | RagServiceRetriever] = getattr(package, name)
    place = package.__name__.split(".")
    made = kind(base_url="http://there:1", api_key=SecretStr("rag-secret"), collection="animals", timeout=9)
    written = dumpd(made)
    assert "rag-secret" not in json.dumps(written)
    assert "rag-secret" not in repr(made)
    assert written["id"] == [*place, name]
    monkeypatch.setenv("RAG_API_KEY", "rag-secret")
    read = load(written, allowed_objects=[kind], valid_namespaces=place[:1], secrets_from_env=True)
    assert type(read) is kind
    assert read.api_key.get_secret_value() == "rag-secret"
    assert (read.base_url, read.collection, read.timeout) == ("http://there:1", "animals", 9)


@BETA
def test_messages_keep_their_citations_when_written_down(chat: ChatRagService) -> None:
    message = chat.invoke([ASKED])
    again = load(dumpd(message), allowed_objects=[AIMessage])
    assert citations(again) == citations(message) != []


@pytest.mark.parametrize("kind", [ChatRagService, RagServiceLLM, RagServiceRetriever])
def test_the_environment_and_fields_reach_the_client(kind: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    assert kind().base_url == "http://127.0.0.1:8080"
    assert kind().api_key is None
    monkeypatch.setenv("RAG_URL", "http://there:1")
    monkeypatch.setenv("RAG_API_KEY", "rag-secret")
    with kind(timeout=9, max_retries=5).client() as rag:
        assert (rag.address.base_url, rag.address.api_key, rag.address.timeout) == ("http://there:1", "rag-secret", 9)
        assert rag._retries.most == 5
    with kind(base_url="http://here:1", api_key="other").client() as rag:
        assert (rag.address.base_url, rag.address.api_key) == ("http://here:1", "other")


async def test_a_service_that_is_away_is_said_to_be() -> None:
    nowhere = {"base_url": "http://127.0.0.1:9", "max_retries": 0}
    for runnable in (ChatRagService(**nowhere), RagServiceLLM(**nowhere), RagServiceRetriever(**nowhere)):
        with pytest.raises(RagConnectionError, match="rag up"):
            runnable.invoke("What?")
        with pytest.raises(RagConnectionError, match="rag up"):
            await runnable.ainvoke("What?")
