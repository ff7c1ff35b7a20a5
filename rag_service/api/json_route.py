"""How routes read JSON bodies: the content type is checked, and parsing and validation leave the event loop free.

Knows requests and pydantic; knows no endpoint.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

import anyio.to_thread
from fastapi import Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from pydantic import TypeAdapter, ValidationError

from rag_service.errors import BadRequest, UnsupportedMediaType

JSON = "application/json"
_Body = TypeVar("_Body")


class JsonRoute(APIRoute):
    """A route whose body, where it has one, is `application/json` and is validated in a thread."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle = super().get_route_handler()
        if self.body_field is None:
            return handle
        annotation: Any = self.body_field.field_info.annotation
        kind: TypeAdapter[Any] = TypeAdapter(annotation)

        async def handler(request: Request) -> Response:
            check_media_type(request, JSON)
            if body := await request.body():
                request = _ReadRequest(request, body, await anyio.to_thread.run_sync(validated, body, kind))
            return await handle(request)

        return handler


class _ReadRequest(Request):
    """A request whose body was read: FastAPI is given the model, and takes it as it is."""

    def __init__(self, request: Request, body: bytes, value: Any) -> None:
        super().__init__(request.scope, request.receive)
        self._given = body, value

    async def body(self) -> bytes:
        return self._given[0]

    async def json(self) -> Any:
        return self._given[1]


def media_type(request: Request) -> str:
    """The content type without its parameters, in lower case; empty where none is named."""
    return request.headers.get("content-type", "").partition(";")[0].strip().lower()


def check_media_type(request: Request, *taken: str) -> None:
    """Raises UnsupportedMediaType for a body of another type, or of none; a request without a body passes."""
    found = media_type(request)
    empty = request.headers.get("content-length", "0") == "0" and "transfer-encoding" not in request.headers
    if found in taken or (empty and not found):
        return
    told = f"Content-Type: {found[:80]}" if found else "no Content-Type"
    raise UnsupportedMediaType(f"The body came with {told}; this address takes {' or '.join(taken)}: say so there.")


def parsed(body: bytes) -> Any:
    """The JSON value of a body. Raises RequestValidationError, BadRequest."""
    try:
        return json.loads(body)
    except json.JSONDecodeError as error:
        where = {"type": "json_invalid", "loc": ("body", error.pos), "msg": "JSON decode error", "input": {}}
        raise RequestValidationError([{**where, "ctx": {"error": error.msg}}]) from None
    except (ValueError, RecursionError):  # not UTF-8, a number of thousands of digits, very deep nesting
        raise BadRequest(
            "The body cannot be read; send well-formed JSON in UTF-8, without huge numbers and deep nesting.",
            "invalid_json",
        ) from None


def validated(body: bytes, kind: TypeAdapter[_Body], check: Callable[[Any], None] | None = None) -> _Body:
    """The model of a body. Blocks: it is to run in a thread. Raises RequestValidationError, BadRequest.

    Args:
        check: looks at the JSON value before its fields are validated.
    """
    value = parsed(body)
    if check is not None:
        check(value)
    try:
        return kind.validate_python(value)
    except ValidationError as error:
        found = [{**e, "loc": ("body", *e["loc"])} for e in error.errors(include_url=False)]
        raise RequestValidationError(found) from None
