"""What `rag doctor` finds out about the model servers: whether each answers, takes the key, and knows the model."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import httpx

from rag_service.setting_sections import DEFAULT_UPSTREAM
from workers.upstream.endpoint import Endpoint

PATIENCE_S = 5.0
"""Seconds that a server has to answer in full."""
MOST_BYTES = 4 * 2**20
"""Of its answer; longer ones are no list of models."""
NAMED_MODELS = 8


@dataclass(frozen=True)
class State:
    """Of a model server; `fix` says what to do, "" for nothing."""

    ok: bool
    found: str
    fix: str = ""


def state(endpoint: Endpoint) -> State:
    """Ask a model server for its models."""
    try:
        status, body = _models(endpoint)
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        found = f"nothing answers at {endpoint.url} ({type(error).__name__})"
        return State(False, found, f"Start the model server, or correct {_setting(endpoint, 'url')}.")
    if status in (401, 403):
        found = f"{endpoint.url} {'wants another' if endpoint.api_key else 'wants a'} key ({status})"
        return State(False, found, f"Set {_setting(endpoint, 'api_key')} to a key of this server.")
    if status != 200:
        fix = (
            f"Its address ends with /v1 on most servers: look at {_setting(endpoint, 'url')}, and at the server's log."
        )
        return State(False, f"{endpoint.url}/models answers with status {status}", fix)
    names = _names(body)
    if names is None:
        fix = f"Correct {_setting(endpoint, 'url')}; on most servers it ends with /v1."
        return State(False, f"{endpoint.url}/models lists no models, so this is no server with OpenAI's API", fix)
    if endpoint.model not in names:
        more = ", …" if len(names) > NAMED_MODELS else ""
        fix = f"Unless it takes any name, set {_setting(endpoint, 'model')} to one that it lists."
        return State(
            True,
            f"{endpoint.url} answers, and lists {', '.join(names[:NAMED_MODELS]) or 'no model'}{more}, but not "
            f"{endpoint.model}",
            fix,
        )
    return State(True, f"{endpoint.model} at {endpoint.url} ({endpoint.server})")


def _models(endpoint: Endpoint) -> tuple[int, bytes]:
    """Status and body of the list of models; the body is empty where it is too long or takes too long."""
    headers = {"Accept": "application/json"}
    if endpoint.api_key is not None:
        headers["Authorization"] = f"Bearer {endpoint.api_key}"
    until = time.monotonic() + PATIENCE_S
    with httpx.stream("GET", f"{endpoint.url}/models", headers=headers, timeout=PATIENCE_S) as response:
        body = b""
        for piece in response.iter_bytes():
            body += piece
            if len(body) > MOST_BYTES or time.monotonic() > until:
                return response.status_code, b""
        return response.status_code, body


def _names(body: bytes) -> list[str] | None:
    """The ids in a list of models; None if it is none."""
    try:
        data: Any = json.loads(body)["data"]
        return [str(model["id"]) for model in _list(data)]
    except (ValueError, KeyError, TypeError):
        return None


def _list(data: Any) -> Iterator[Any]:
    if not isinstance(data, list):
        raise TypeError
    return iter(data)


def _setting(endpoint: Endpoint, field: str) -> str:
    if endpoint.name == DEFAULT_UPSTREAM:
        return f"RAG_UPSTREAM__{field.upper()}"
    return f"`{field}` of {endpoint.name} in RAG_UPSTREAM__OTHERS"
