"""Structured output: a schema as a `response_format`, which constrains every token of the answer, and its parser."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from operator import itemgetter
from typing import Any

from langchain_core.exceptions import OutputParserException
from langchain_core.language_models import LanguageModelInput
from langchain_core.messages import BaseMessage
from langchain_core.output_parsers import BaseOutputParser, JsonOutputParser, PydanticOutputParser
from langchain_core.runnables import Runnable, RunnableGenerator, RunnableMap, RunnablePassthrough
from langchain_core.utils.function_calling import convert_to_json_schema
from langchain_core.utils.pydantic import is_basemodel_subclass


def response_format(schema: Any) -> dict[str, Any]:
    """The request field for an answer that follows a pydantic class, a TypedDict or a JSON schema."""
    json_schema = dict(convert_to_json_schema(schema))
    name = str(json_schema.get("title") or "answer")[:64]
    return {"type": "json_schema", "json_schema": {"name": name, "schema": json_schema}}


def parser(schema: Any) -> BaseOutputParser[Any]:
    """The parser of an answer: an object of a pydantic class, else a dict."""
    if isinstance(schema, type) and is_basemodel_subclass(schema):
        return PydanticOutputParser(pydantic_object=schema)
    return JsonOutputParser()


def structured(
    model: Runnable[LanguageModelInput, BaseMessage], schema: Any, include_raw: bool
) -> Runnable[LanguageModelInput, Any]:
    """`model` with its answers parsed; with `include_raw`, {raw, parsed, parsing_error}."""
    parsing = RunnableGenerator(_whole, _awhole) | parser(schema)
    if not include_raw:
        return model | parsing
    parsed = RunnablePassthrough.assign(parsed=itemgetter("raw") | parsing, parsing_error=lambda _: None)
    unparsed = RunnablePassthrough.assign(parsed=lambda _: None)
    return RunnableMap(raw=model) | parsed.with_fallbacks([unparsed], exception_key="parsing_error")


def _whole(pieces: Iterator[BaseMessage]) -> Iterator[BaseMessage]:
    for piece in pieces:
        _check(piece)
        yield piece


async def _awhole(pieces: AsyncIterator[BaseMessage]) -> AsyncIterator[BaseMessage]:
    async for piece in pieces:
        _check(piece)
        yield piece


def _check(piece: BaseMessage) -> None:
    """Raises OutputParserException if the answer was cut off: LangChain's parsers would accept half a JSON text."""
    if piece.response_metadata.get("finish_reason") == "length":
        raise OutputParserException(
            "The answer was cut off before its JSON was complete: it reached max_tokens, or it repeated itself."
        )
