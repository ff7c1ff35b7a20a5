"""The service as a LangChain language model: a text in, a text out."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Iterator
from typing import Any

from langchain_core.callbacks import AsyncCallbackManagerForLLMRun, CallbackManagerForLLMRun
from langchain_core.language_models.llms import LLM
from langchain_core.outputs import GenerationChunk

from rag_service.langchain.answers import Ending, astream_answer, stream_answer
from rag_service.langchain.service import Generation, chosen_collection, model_name


class RagServiceLLM(Generation, LLM):
    """Answers a prompt, with passages of `collection` if it is not None.

    The `generation_info` of the last chunk of a stream holds the answer's metadata (`answer_id`, `citations`,
    `passages`, `speculation`, …). `ChatRagService` offers more.

    Raises (when called):
        RagError: `rag_service.client` has the tree.
    """

    @property
    def _llm_type(self) -> str:
        return "rag-service"

    @property
    def _identifying_params(self) -> dict[str, Any]:
        return {"model_name": model_name(self.collection), "base_url": self.base_url, **self.sampling(None, {})}

    def _call(
        self,
        prompt: str,
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> str:
        return "".join(chunk.text for chunk in self._stream(prompt, stop, None, **kwargs))

    async def _acall(
        self,
        prompt: str,
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> str:
        return "".join([chunk.text async for chunk in self._astream(prompt, stop, None, **kwargs)])

    def _stream(
        self,
        prompt: str,
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> Iterator[GenerationChunk]:
        body, model = self.query(prompt, stop, kwargs), model_name(chosen_collection(self.collection, kwargs))
        with self.client() as rag, contextlib.closing(stream_answer(rag, body, model)) as pieces:
            for piece in pieces:
                chunk = _chunk(piece)
                if run_manager is not None:
                    run_manager.on_llm_new_token(chunk.text, chunk=chunk)
                yield chunk

    async def _astream(
        self,
        prompt: str,
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> AsyncIterator[GenerationChunk]:
        body, model = self.query(prompt, stop, kwargs), model_name(chosen_collection(self.collection, kwargs))
        async with self.async_client() as rag, contextlib.aclosing(astream_answer(rag, body, model)) as pieces:
            async for piece in pieces:
                chunk = _chunk(piece)
                if run_manager is not None:
                    await run_manager.on_llm_new_token(chunk.text, chunk=chunk)
                yield chunk


def _chunk(piece: str | Ending) -> GenerationChunk:
    if isinstance(piece, str):
        return GenerationChunk(text=piece)
    return GenerationChunk(text="", generation_info=piece.metadata)
