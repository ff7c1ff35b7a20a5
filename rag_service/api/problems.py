"""Turns every exception that a route can raise into a problem document.

Bad input never gives a 5xx, and no response shows a stack trace. Knows the exceptions of FastAPI and of the other
packages; knows no endpoint.
"""

from __future__ import annotations

import errno
import logging
import re
import sqlite3
from collections.abc import Mapping
from typing import Any, Protocol

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException
from starlette.routing import Match

from rag_service import errors
from rag_service.api import anthropic_errors, openai_errors
from rag_service.api.anthropic_errors import is_anthropic
from rag_service.api.openai_errors import is_openai
from rag_service.contract.id_patterns import IN_WORDS
from rag_service.errors import Problem
from retriever import (
    CollectionBusy,
    CollectionExists,
    CollectionInUse,
    DiskFull,
    EmbedderMismatch,
    EmbedderUnavailable,
    InvalidName,
    InvalidQuery,
    RerankerUnavailable,
    RetrieverError,
    StoreUnavailable,
    UnknownCollection,
    UnknownDocument,
)
from workers.errors import DatabaseFull, DatabaseUnavailable, QueueUnavailable, RedisDiskFull, RedisFull

log = logging.getLogger(__name__)

MEDIA_TYPE = "application/problem+json"

_FIELD = re.compile(r"[a-z][a-z0-9_]*")
_UNION_BRANCHES = {"str", "list", "dict", "int", "float", "bool"}
_NOT_AN_OBJECT = {"model_attributes_type", "model_type", "dict_type"}
_DISK_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
_OF_WHAT_IS = ("GET", "HEAD", "PATCH", "DELETE")
"""Methods of requests for which nobody creates a collection first."""
_LIST_COLLECTIONS = "GET /v1/collections lists those there are"
_SHOWN_CHARS = 60
"""Most characters of an invalid value in an error message."""


def install(app: FastAPI) -> None:
    """Register the handlers of all errors of `app`."""
    for kind in (Problem, RetrieverError, QueueUnavailable, OSError, sqlite3.Error):
        app.add_exception_handler(kind, _unexpected)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(HTTPException, _http)
    app.add_exception_handler(Exception, _unexpected)


class _Format(Protocol):
    """Errors as another service's API writes them."""

    def status_of(self, problem: Problem) -> int: ...

    def error_document(self, problem: Problem, status: int | None = None) -> dict[str, Any]: ...

    def headers_of(self, document: dict[str, Any]) -> dict[str, str]: ...


def response(
    problem: Problem, path: str, status: int | None = None, headers: Mapping[str, str] | None = None
) -> JSONResponse:
    """The response for a problem: a problem document, or the format of the API whose endpoint the path is.

    Args:
        path: the path of the request.
        status: replaces the status of the problem's class.
        headers: replace the problem's.
    """
    headers = problem.headers() if headers is None else headers
    style = _format(path)
    if style is None:
        status = problem.status if status is None else status
        body = errors.problem_document(status, problem.code, problem.detail, **problem.extra)
        return JSONResponse(body, status, dict(headers), MEDIA_TYPE)
    status = style.status_of(problem) if status is None else status
    body = style.error_document(problem, status)
    return JSONResponse(body, status, {**headers, **style.headers_of(body)})


def _format(path: str) -> _Format | None:
    """The format of errors of a path; None for problem documents."""
    if is_openai(path):
        return openai_errors
    return anthropic_errors if is_anthropic(path) else None


def as_problem(error: Exception) -> Problem:
    """The problem for an exception of this project; any other exception becomes an `internal_error`."""
    if isinstance(error, Problem):
        return error
    text = sentence(str(error))
    if isinstance(error, RedisFull):
        log.warning("%s", error)
        return errors.redis_disk_full() if isinstance(error, RedisDiskFull) else errors.redis_memory_full()
    if isinstance(error, DatabaseUnavailable):
        log.warning("%s", error)
        return errors.database_full() if isinstance(error, DatabaseFull) else errors.database_unavailable()
    if isinstance(error, QueueUnavailable):
        log.warning("%s", error)
        return errors.redis_unavailable()
    if _disk_is_full(error):
        log.error("%s", error)
        return errors.storage_full()
    if isinstance(error, UnknownCollection):
        return errors.NotFound(text, "unknown_collection")
    if isinstance(error, UnknownDocument):
        return errors.NotFound(text, "unknown_document")
    if isinstance(error, InvalidName | InvalidQuery):
        return errors.InvalidRequest(text)
    if isinstance(error, CollectionExists):
        return errors.Conflict(text, "collection_exists")
    if isinstance(error, CollectionInUse):
        return errors.Conflict(text, "collection_in_use")
    if isinstance(error, EmbedderMismatch):
        return errors.Conflict(text, "embedder_mismatch")
    if isinstance(error, CollectionBusy):
        return errors.Unavailable(text, "collection_busy", retry_after=5)
    if isinstance(error, StoreUnavailable):
        log.warning("%s", error)
        return errors.store_unavailable()
    if isinstance(error, DiskFull):
        return errors.storage_full()
    if isinstance(error, EmbedderUnavailable):
        return errors.Unavailable(text, "embedder_unavailable", retry_after=60)
    if isinstance(error, RerankerUnavailable):
        return errors.Unavailable(text, "reranker_unavailable", retry_after=60)
    log.error("unexpected error", exc_info=error)
    return Problem("The service failed while it handled this request. Its log has the details.")


def _disk_is_full(error: BaseException | None) -> bool:
    """Whether an error or one of its causes is a full disk."""
    while error is not None:
        if isinstance(error, OSError) and error.errno in _DISK_FULL:
            return True
        if isinstance(error, sqlite3.Error) and getattr(error, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_FULL:
            return True
        error = error.__cause__ or error.__context__
    return False


def sentence(text: str) -> str:
    """The text with a capital letter and a full stop."""
    text = text.strip()
    if "_" in text.partition(" ")[0]:  # names keep their lower case
        text = f"The {text}"
    return text[:1].upper() + text[1:] + ("" if text.endswith((".", "!", "?")) else ".")


def explain(validation_errors: list[Any]) -> str:
    """The first three validation errors as sentences, each with the field and its allowed values."""
    sentences: dict[str, None] = {}
    specific = {_name(error["loc"]) for error in validation_errors if error["type"] not in _NOT_AN_OBJECT}
    for error in validation_errors:
        name = _name(error["loc"])
        if name in specific and error["type"] in _NOT_AN_OBJECT:
            continue  # the field may be an object or something else, and the client did not send an object
        subject = f"field {name!r}" if name else "the body"
        reason = str(error["msg"]).removeprefix("Value error, ")
        if words := IN_WORDS.get((error.get("ctx") or {}).get("pattern", "")):
            reason = f"String should be {words}"
        if error["type"] in _NOT_AN_OBJECT and not name:
            reason = "the body must be a JSON object, sent with Content-Type: application/json"
        elif error["type"] == "missing":
            reason = f"{subject} is missing; send it"
        elif reason.startswith(("Input should", "String should", "List should", "Dictionary should")):
            reason = f"{subject} should {reason.split(' should ', 1)[1]}{_received(error.get('input'))}"
        elif name and name not in reason:
            reason = f"{subject}: {reason}"
        sentences[sentence(reason)] = None
    return " ".join(list(sentences)[:3])


def _name(loc: tuple[str | int, ...]) -> str:
    name = ""
    for part in loc[1:]:
        if isinstance(part, int):
            name += f"[{part}]"
        elif _FIELD.fullmatch(part) and part not in _UNION_BRANCHES:
            name += f".{part}" if name else part
        else:
            break
    return name


def _received(value: Any) -> str:
    if isinstance(value, dict | list) or value is None:
        return ""
    text = repr(value)
    return f", got {text[:_SHOWN_CHARS]}{'…' if len(text) > _SHOWN_CHARS else ''}".encode("utf-8", "replace").decode()


async def _invalid(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, RequestValidationError)
    details = list(error.errors())
    if any(e["type"] == "json_invalid" for e in details):
        text = f"The body is not valid JSON ({_json_error(details)}). Correct it."
        return response(errors.BadRequest(text, "invalid_json"), request.url.path)
    extra: dict[str, Any] = {"param": _name(details[0]["loc"]) or None} if is_openai(request.url.path) else {}
    return response(errors.InvalidRequest(explain(details), **extra), request.url.path)


def _json_error(details: list[Any]) -> str:
    first = next(e for e in details if e["type"] == "json_invalid")
    return f"{first.get('ctx', {}).get('error', 'syntax error')} at character {first['loc'][-1]}"


async def _http(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, HTTPException)
    status, text, headers = error.status_code, str(error.detail), error.headers
    code = {404: "not_found", 405: "method_not_allowed", 413: "body_too_large"}.get(status, "bad_request")
    if status == 404 and text == "Not Found":
        text = "There is nothing at this address. /docs lists all addresses."
    elif status == 405:
        text = "This address does not accept this method. /docs lists the methods of all addresses."
        headers = {**(headers or {}), "Allow": ", ".join(_methods(request))}
    elif status == 400 and text == "There was an error parsing the body":
        text, code = "The body cannot be read. Send well-formed JSON in UTF-8, or multipart files.", "invalid_json"
    return response(Problem(sentence(text), code), request.url.path, status, headers or {})


def _methods(request: Request) -> list[str]:
    """All methods of an address; Starlette names only those of its first route."""

    def accepted(method: str) -> bool:
        scope = {**request.scope, "method": method}
        return any(route.matches(scope)[0] == Match.FULL for route in request.app.routes)

    return list(filter(accepted, ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE")))


async def _unexpected(request: Request, error: Exception) -> JSONResponse:
    problem = as_problem(error)
    if isinstance(error, UnknownCollection) and request.method in _OF_WHAT_IS:
        problem = errors.NotFound(problem.detail.replace(error.ADVICE, _LIST_COLLECTIONS), problem.code)
    return response(problem, request.url.path)
