"""Tools of a request as the engine needs them: whether there may be any, and the calls that an answer has to be.

Knows schemas and the model's form of calls; knows no API's fields beyond their names.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rag_service.errors import BadRequest
from workers.broker.messages import CallableFunction, Calls
from workers.grammar.schemas import BadSchema, check_calls, check_schema
from workers.tokens.call_form import CallForm

_OPEN = {"additionalProperties", "patternProperties", "$ref", "allOf", "anyOf", "oneOf"}
"""What says more about an object's properties than `properties`."""


def check_tools(used: bool, form: CallForm | None) -> None:
    """Refuse tools, and messages of tools, that the model's chat template cannot show. Raises BadRequest."""
    if used and form is None:
        raise BadRequest(
            "This model's chat template has no tools, so it can call none: leave `tools` and messages of tools out, or "
            "serve a model that has them.",
            "unsupported_tools",
            param="tools",
        )


def required(
    functions: Sequence[tuple[str, dict[str, Any]]],
    named: str | None,
    form: CallForm | None,
    *,
    many: bool,
    schema_field: str,
) -> Calls:
    """The calls that an answer has to be. Raises BadRequest.

    Args:
        functions: (name, JSON schema of its arguments) of all tools.
        named: the function that is called; None for any.
        many: whether there may be several calls.
        schema_field: the request's name for the schema.
    """
    if not functions:
        raise BadRequest(
            "tool_choice asks for a call, and there is nothing to call: send `tools`, or leave tool_choice out.",
            "missing_tools",
            param="tool_choice",
        )
    chosen = [function for function in functions if named in (None, function[0])]
    if not chosen:
        names = ", ".join(sorted({name for name, _ in functions}))
        raise BadRequest(
            f"tool_choice names the function {named!r}, which is not among `tools`: name one of {names}.",
            "unknown_tool",
            param="tool_choice",
        )
    calls = Calls(
        functions=[
            CallableFunction(name=name, parameters=_arguments(name, schema, schema_field)) for name, schema in chosen
        ],
        many=named is None and many,
    )
    try:
        check_calls(calls, form)
    except BadSchema as error:
        raise BadRequest(
            f"Arguments of a function cannot be made to follow the JSON schema in its `{schema_field}`: {error}.",
            "invalid_schema",
            param="tools",
        ) from None
    return calls


def checked_schema(schema: dict[str, Any] | None, field: str) -> dict[str, Any] | None:
    """A JSON schema that an answer has to follow. Raises BadRequest.

    Args:
        field: the request's field that it came in.
    """
    if schema is not None:
        try:
            check_schema(schema)
        except BadSchema as error:
            raise BadRequest(
                f"The answer cannot be made to follow this JSON schema: {error}.", "invalid_schema", param=field
            ) from None
    return schema


def _arguments(name: str, schema: dict[str, Any], schema_field: str) -> dict[str, Any]:
    """The JSON schema that the arguments of a call follow: an object, of what the function declares and no more.

    Raises BadRequest.
    """
    schema = schema or {"type": "object", "properties": {}}
    kinds = schema.get("type", "object")
    if "object" not in ([kinds] if isinstance(kinds, str) else kinds):
        raise BadRequest(
            f"Arguments are an object, and the `{schema_field}` of the function {name!r} describe none: let their "
            'type be "object".',
            "invalid_schema",
            param="tools",
        )
    closed = {"additionalProperties": False} if "properties" in schema and not _OPEN & set(schema) else {}
    return {**schema, **closed, "type": "object"}
