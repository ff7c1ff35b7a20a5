"""The service as a LangChain chat model."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from typing import Any, Literal

from langchain_core.callbacks import AsyncCallbackManagerForLLMRun, CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel, LanguageModelInput
from langchain_core.language_models.base import LangSmithParams
from langchain_core.language_models.chat_models import agenerate_from_stream, generate_from_stream
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage, HumanMessage
from langchain_core.outputs import ChatGenerationChunk, ChatResult
from langchain_core.runnables import Runnable
from langchain_core.tools import BaseTool
from langchain_core.utils.function_calling import convert_to_openai_tool

from rag_service.langchain.answers import Ending, astream_answer, stream_answer
from rag_service.langchain.conversation import Piece, astream_completion, completion, stream_completion, text_of
from rag_service.langchain.metadata import PROVIDER
from rag_service.langchain.service import Generation, chosen_collection, model_name
from rag_service.langchain.structured import response_format, structured, told


class ChatRagService(Generation, BaseChatModel):
    """Answers with citations over a collection, or without retrieval where none is named.

    A question alone, and every question of a session (`session_id`), goes to POST /v1/query: the service remembers a
    session's turns, so of the messages only the last is sent. Any other history, and what comes with tools or a schema,
    is sent whole to POST /v1/chat/completions.

    The message's `content` is a text; `content_blocks` carries the citations as annotations (`content` does so with
    `output_version="v1"`). `response_metadata` has answer_id, session_id, citations, passages, finish_reason, seed,
    timings and speculation, as far as the endpoint tells them. An answer whose stream is closed early is cancelled.

    Raises (when called):
        RagError: `rag_service.client` has the tree.
        ValueError: a message holds something else than text, or a session is asked with system messages.
    """

    streaming: bool = False
    """Whether `invoke` shows its callbacks every piece of text."""

    @property
    def _llm_type(self) -> str:
        return PROVIDER

    @property
    def model_name(self) -> str:
        """`rag:COLLECTION`, or `default` where nothing is retrieved."""
        return model_name(self.collection)

    @property
    def _identifying_params(self) -> dict[str, Any]:
        own = {"session_id": self.session_id, "retrieval": self.retrieval}
        return {"model_name": self.model_name, "base_url": self.base_url, **own, **self.sampling(None, {})}

    def _get_ls_params(self, stop: list[str] | None = None, **kwargs: Any) -> LangSmithParams:
        sampling = self.sampling(stop, kwargs)
        model = kwargs.get("model")
        params = LangSmithParams(
            ls_provider=PROVIDER,
            ls_model_type="chat",
            ls_model_name=model if isinstance(model, str) else model_name(chosen_collection(self.collection, kwargs)),
            ls_temperature=sampling["temperature"],
        )
        if "max_tokens" in sampling:
            params["ls_max_tokens"] = sampling["max_tokens"]
        if "stop" in sampling:
            params["ls_stop"] = sampling["stop"]
        return params

    def bind_tools(
        self,
        tools: Sequence[dict[str, Any] | type | Callable[..., Any] | BaseTool],
        *,
        tool_choice: str | dict[str, Any] | bool | None = None,
        **kwargs: Any,
    ) -> Runnable[LanguageModelInput, AIMessage]:
        """A model that may call tools, if the served model's chat template has them (InvalidRequest where it has not).

        Args:
            tool_choice: `auto` lets the model decide; `any`, `required` or True force a call of some tool, a tool's
                name (or what OpenAI's API takes) one of that tool; `none` forbids calls. Arguments of forced calls
                follow their schema.
            kwargs: further fields of the request, such as `parallel_tool_calls`.
        """
        asked = {} if tool_choice in (None, False) else {"tool_choice": _choice(tool_choice)}
        return self.bind(tools=[convert_to_openai_tool(tool) for tool in tools], **asked, **kwargs)

    def with_structured_output(
        self,
        schema: dict[str, Any] | type,
        *,
        include_raw: bool = False,
        method: Literal["json_schema", "json_mode", "function_calling"] = "json_schema",
        strict: bool | None = None,
        **kwargs: Any,
    ) -> Runnable[LanguageModelInput, Any]:
        """A model whose answers follow a schema: every token is held to it while it is chosen.

        Args:
            schema: a pydantic class (the result is an object), or a TypedDict or JSON schema (a dict).
            include_raw: gives {raw, parsed, parsing_error} instead.
            method, strict: there is one way here, and it is strict; any value names it.
        """
        if kwargs:
            raise ValueError(f"with_structured_output takes no {', '.join(sorted(kwargs))}")
        asked = self.bind(response_format=response_format(schema), ls_structured_output_format=told(schema, method))
        return structured(asked, schema, include_raw)

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        return generate_from_stream(self._stream(messages, stop, None, **kwargs))

    async def _agenerate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        return await agenerate_from_stream(self._astream(messages, stop, None, **kwargs))

    def _stream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> Iterator[ChatGenerationChunk]:
        body, model = self._body(messages, stop, kwargs)
        with self.client() as rag:
            answer = stream_answer(rag, body, model) if "question" in body else stream_completion(rag, body)
            with contextlib.closing(answer) as pieces:
                for piece in pieces:
                    chunk = _chunk(piece)
                    if run_manager is not None:
                        run_manager.on_llm_new_token(chunk.text, chunk=chunk)
                    yield chunk

    async def _astream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> AsyncIterator[ChatGenerationChunk]:
        body, model = self._body(messages, stop, kwargs)
        async with self.async_client() as rag:
            answer = astream_answer(rag, body, model) if "question" in body else astream_completion(rag, body)
            async with contextlib.aclosing(answer) as pieces:
                async for piece in pieces:
                    chunk = _chunk(piece)
                    if run_manager is not None:
                        await run_manager.on_llm_new_token(chunk.text, chunk=chunk)
                    yield chunk

    def _body(
        self, messages: list[BaseMessage], stop: list[str] | None, given: dict[str, Any]
    ) -> tuple[dict[str, Any], str]:
        """What is sent, and the model's name. A body with a `question` is one of /v1/query."""
        model = model_name(chosen_collection(self.collection, given))
        question = self._question(messages, given)
        if question is not None:
            return self.query(question, stop, given), model
        retrieval = given.get("retrieval", self.retrieval)
        own = {"retrieval": retrieval} if retrieval is not None else {}
        return completion(messages, model, {**self.sampling(stop, given), **own}), model

    def _question(self, messages: list[BaseMessage], given: dict[str, Any]) -> str | None:
        """The one message that has to be sent; None: the whole history has to be."""
        last = messages[-1]
        if given.get("response_format") or given.get("tools"):
            return None
        if given.get("session_id", self.session_id) is None:
            return text_of(last) if len(messages) == 1 and isinstance(last, HumanMessage) else None
        if not isinstance(last, HumanMessage) or any(message.type == "system" for message in messages):
            raise ValueError(
                "A session takes questions, and keeps what came before: send it a human message last and no system "
                "messages, or leave session_id out and send the whole history."
            )
        return text_of(last)


def _choice(tool_choice: str | dict[str, Any] | bool | None) -> Any:
    """LangChain's way to choose a tool as OpenAI's."""
    if tool_choice in ("any", True):
        return "required"
    if isinstance(tool_choice, str) and tool_choice not in ("auto", "none", "required"):
        return {"type": "function", "function": {"name": tool_choice}}
    return tool_choice


def _chunk(piece: Piece | Ending) -> ChatGenerationChunk:
    if isinstance(piece, str):
        return ChatGenerationChunk(message=AIMessageChunk(content=piece))
    if not isinstance(piece, Ending):
        return ChatGenerationChunk(message=AIMessageChunk(content="", tool_call_chunks=[piece]))
    message = AIMessageChunk(
        content="",
        response_metadata=piece.metadata,
        usage_metadata=piece.usage,
        chunk_position="last",
    )
    return ChatGenerationChunk(message=message)
