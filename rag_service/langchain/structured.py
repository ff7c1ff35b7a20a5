"""Structured output: a schema as a `response_format`, which holds every token of the answer to it, and its parser.

Knows schemas and parsers; sends nothing.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping
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
    """What asks for an answer that follows a schema: a pydantic class, a TypedDict or a JSON schema."""
    found = dict(convert_to_json_schema(schema))
    name = str(found.get("title") or "answer")[:64]
    return {"type": "json_schema", "json_schema": {"name": name, "schema": found}}


def parser(schema: Any) -> BaseOutputParser[Any]:
    """Makes an object of a pydantic class, a dict of anything else."""
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
    """LangChain's parsers make something even of half a JSON text.

    Raises:
        OutputParserException: the answer was cut off.
    """
    if piece.response_metadata.get("finish_reason") == "length":
        raise OutputParserException("The answer was cut off before its JSON was complete: allow it more max_tokens.")


def told(schema: Any, method: str) -> Mapping[str, Any]:
    """What traces are told of it."""
    return {"kwargs": {"method": method}, "schema": convert_to_json_schema(schema)}
