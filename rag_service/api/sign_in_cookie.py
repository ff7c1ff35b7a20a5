"""The cookie of a sign-in: its name, its attributes, and which requests may change something with it.

Browsers send cookies of a host to all its ports, so the name has the port. Knows headers; knows no keys.
"""

from __future__ import annotations

from typing import Any

from starlette.requests import cookie_parser
from starlette.responses import Response
from starlette.types import Scope

from rag_service.errors import Forbidden

_NAME = "rag-sign-in"
_READING = frozenset({"GET", "HEAD", "OPTIONS"})


def token(scope: Scope) -> str | None:
    """The token in the request's cookie; None if it has none."""
    for value in _values(scope, b"cookie"):
        if found := cookie_parser(value).get(_name(scope)):
            return found
    return None


def set_on(response: Response, scope: Scope, value: str, seconds: int) -> None:
    """Let the browser keep a token. Only https sends it back if it came over https, to a proxy or to the service."""
    response.set_cookie(_name(scope), value, max_age=seconds, **_attributes(scope))


def delete_on(response: Response, scope: Scope) -> None:
    """Let the browser forget the token."""
    response.delete_cookie(_name(scope), **_attributes(scope))


def check_origin(scope: Scope) -> None:
    """Check that a page of the service's own origin sent a request that changes something.

    `HostCheck` has rejected foreign origins; here it must be known that it is the own one. A page of another site can
    make a browser send a request with the cookie, and these headers are what it cannot forge.

    Raises:
        Forbidden: neither header says so.
    """
    if scope["method"] in _READING or _values(scope, b"origin"):
        return
    if _values(scope, b"sec-fetch-site") != ["same-origin"]:
        raise Forbidden(
            "A request that changes something and has a cookie instead of a key must come from the service's own page, "
            "with `Origin` or `Sec-Fetch-Site: same-origin`. Programs send `Authorization: Bearer KEY`.",
            "foreign_origin",
        )


def _name(scope: Scope) -> str:
    host = next(iter(_values(scope, b"host")), "")
    port = host.rpartition(":")[2]
    return f"{_NAME}-{port}" if ":" in host and port.isascii() and port.isdigit() else _NAME


def _attributes(scope: Scope) -> dict[str, Any]:
    return {
        "path": scope.get("root_path") or "/",
        "secure": scope["scheme"] == "https",
        "httponly": True,
        "samesite": "strict",
    }


def _values(scope: Scope, header: bytes) -> list[str]:
    return [value.decode("latin-1") for name, value in scope["headers"] if name == header]
