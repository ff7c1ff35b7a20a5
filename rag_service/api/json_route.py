"""Reading of JSON bodies: checks of the content type, and parsing and validation outside the event loop.

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
    """A route whose body, if any, must be `application/json`. A thread parses and validates it."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle = super().get_route_handler()
        if self.body_field is None:
            return handle
        annotation: Any = self.body_field.field_info.annotation
        model: TypeAdapter[Any] = TypeAdapter(annotation)

        async def handler(request: Request) -> Response:
            check_media_type(request, JSON)
            if body := await request.body():
                request = _ReadRequest(request, body, await anyio.to_thread.run_sync(validated, body, model))
            return await handle(request)

        return handler


class _ReadRequest(Request):
    """A request whose body is already validated: FastAPI gets the model as its JSON, and uses it as it is."""

    def __init__(self, request: Request, body: bytes, value: Any) -> None:
        super().__init__(request.scope, request.receive)
        self._content, self._model = body, value

    async def body(self) -> bytes:
        return self._content

    async def json(self) -> Any:
        return self._model


def media_type(request: Request) -> str:
    """The content type in lower case and without its parameters; empty if the request has none."""
    return request.headers.get("content-type", "").partition(";")[0].strip().lower()


def check_media_type(request: Request, *accepted: str) -> None:
    """Check that a body has an accepted media type; a request without a body passes. Raises UnsupportedMediaType."""
    sent = media_type(request)
    empty = request.headers.get("content-length", "0") == "0" and "transfer-encoding" not in request.headers
    if sent in accepted or (empty and not sent):
        return
    header = f"Content-Type {sent[:80]}" if sent else "no Content-Type"
    raise UnsupportedMediaType(f"The body has {header}. Send it as {' or '.join(accepted)}.")


def parsed(body: bytes) -> Any:
    """The JSON value of a body. Raises RequestValidationError, BadRequest."""
    try:
        return json.loads(body)
    except json.JSONDecodeError as error:
        details = {"type": "json_invalid", "loc": ("body", error.pos), "msg": "JSON decode error", "input": {}}
        raise RequestValidationError([{**details, "ctx": {"error": error.msg}}]) from None
    except (ValueError, RecursionError):  # not UTF-8, a number of thousands of digits, very deep nesting
        raise BadRequest(
            "The body cannot be read. Send well-formed JSON in UTF-8, without huge numbers or deep nesting.",
            "invalid_json",
        ) from None


def validated(body: bytes, model: TypeAdapter[_Body], check: Callable[[Any], None] | None = None) -> _Body:
    """The validated model of a body. Blocks, so run it in a thread. Raises RequestValidationError, BadRequest.

    Args:
        check: called with the JSON value before its fields are validated.
    """
    value = parsed(body)
    if check is not None:
        check(value)
    try:
        return model.validate_python(value)
    except ValidationError as error:
        details = [{**e, "loc": ("body", *e["loc"])} for e in error.errors(include_url=False)]
        raise RequestValidationError(details) from None
