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
from langchain_core.utils.function_calling import convert_to_json_schema, convert_to_openai_tool

from rag_service.langchain.answers import Ending, astream_answer, stream_answer
from rag_service.langchain.conversation import Piece, astream_completion, completion, stream_completion, text_of
from rag_service.langchain.metadata import PROVIDER
from rag_service.langchain.service import Generation, chosen_collection, model_name
from rag_service.langchain.structured import response_format, structured


class ChatRagService(Generation, BaseChatModel):
    """Answers with citations over a collection, or without retrieval if `collection` is None.

    A single question, and every question of a session (`session_id`), goes to POST /v1/query. The service remembers the
    turns of a session, so only the last message is sent. Any other history, and requests with tools or a schema, are
    sent as a whole to POST /v1/chat/completions.

    The message's `content` is a text; `content_blocks` carries the citations as annotations (`content` does so with
    `output_version="v1"`). `response_metadata` has answer_id, session_id, citations, passages, finish_reason, seed,
    timings and speculation, as far as the endpoint has them. An answer is cancelled if its stream is closed early.

    Raises (when called):
        RagError: `rag_service.client` has the tree.
        ValueError: a message contains something other than text, or a session gets system messages.
    """

    streaming: bool = False
    """Whether `invoke` passes every piece of text to its callbacks."""

    @property
    def _llm_type(self) -> str:
        return PROVIDER

    @property
    def model_name(self) -> str:
        """`rag:COLLECTION`, or `default` without retrieval."""
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
        """A model that can call tools, if the chat template of the served model supports them (else InvalidRequest).

        Args:
            tool_choice: `auto` lets the model decide; `any`, `required` or True force a call of some tool; a tool's
                name (or OpenAI's object for it) forces a call of that tool; `none` forbids calls. The arguments of
                forced calls follow their schema.
            kwargs: other fields of the request, such as `parallel_tool_calls`.
        """
        choice = {} if tool_choice in (None, False) else {"tool_choice": _choice(tool_choice)}
        return self.bind(tools=[convert_to_openai_tool(tool) for tool in tools], **choice, **kwargs)

    def with_structured_output(
        self,
        schema: dict[str, Any] | type,
        *,
        include_raw: bool = False,
        method: Literal["json_schema", "json_mode", "function_calling"] = "json_schema",
        strict: bool | None = None,
        **kwargs: Any,
    ) -> Runnable[LanguageModelInput, Any]:
        """A model whose answers follow a schema, which constrains the choice of every token.

        Args:
            schema: a pydantic class (the result is an object), or a TypedDict or JSON schema (a dict).
            include_raw: return {raw, parsed, parsing_error} instead.
            method, strict: without effect; there is one method, and it is strict.
        """
        if kwargs:
            raise ValueError(f"with_structured_output takes no {', '.join(sorted(kwargs))}")
        trace = {"kwargs": {"method": method}, "schema": convert_to_json_schema(schema)}
        model = self.bind(response_format=response_format(schema), ls_structured_output_format=trace)
        return structured(model, schema, include_raw)

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
        self, messages: list[BaseMessage], stop: list[str] | None, kwargs: dict[str, Any]
    ) -> tuple[dict[str, Any], str]:
        """(body of the request, the model's name). A body with a `question` is for /v1/query."""
        model = model_name(chosen_collection(self.collection, kwargs))
        question = self._question(messages, kwargs)
        if question is not None:
            return self.query(question, stop, kwargs), model
        retrieval = kwargs.get("retrieval", self.retrieval)
        own = {"retrieval": retrieval} if retrieval is not None else {}
        return completion(messages, model, {**self.sampling(stop, kwargs), **own}), model

    def _question(self, messages: list[BaseMessage], kwargs: dict[str, Any]) -> str | None:
        """The last message if it is all that has to be sent; None if the whole history has to be."""
        last = messages[-1]
        if kwargs.get("response_format") or kwargs.get("tools"):
            return None
        if kwargs.get("session_id", self.session_id) is None:
            return text_of(last) if len(messages) == 1 and isinstance(last, HumanMessage) else None
        if not isinstance(last, HumanMessage) or any(message.type == "system" for message in messages):
            raise ValueError(
                "A session remembers earlier turns: send a human message last and no system messages, or leave "
                "session_id out and send the whole history."
            )
        return text_of(last)


def _choice(tool_choice: str | dict[str, Any] | bool | None) -> Any:
    """LangChain's `tool_choice` as OpenAI's."""
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
