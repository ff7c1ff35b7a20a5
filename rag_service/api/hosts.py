"""Checks of `Host` and `Origin`, which keep other sites' pages in the user's browser away from the service.

A page whose host name was pointed at this machine (DNS rebinding) sends that name as `Host`, and is rejected. A page of
another site is rejected by its `Origin`. Requests without `Origin`, as programs send them, pass. The service sends no
CORS headers. Knows headers; knows no keys and no endpoint.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Sequence
from urllib.parse import urlsplit

from starlette.types import ASGIApp, Receive, Scope, Send

from rag_service.api import problems
from rag_service.api.authentication import guarded
from rag_service.errors import BadRequest, Forbidden, Problem, UnknownHost

_PROBES = frozenset({"/healthz", "/readyz"})
"""Accepted under any host name, since machines probe the service under many names. They reveal nothing."""
_HOST = re.compile(r"(?P<name>\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)(?::(?P<port>[0-9]{1,5})?)?", re.ASCII)
_DEFAULT_PORTS = (None, 80, 443)


class HostCheck:
    """The outermost ASGI middleware: answers 400, 421 or 403 to requests that are not meant for this service.

    Args:
        host: the address that the service listens on.
        allowed: more host names; `*.name` allows all names below one.
    """

    def __init__(self, app: ASGIApp, *, host: str, allowed: Sequence[str]) -> None:
        self._app = app
        self._names = {host.lower(), *(name for name in allowed if not name.startswith("*."))}
        self._domains = ("localhost", *(name[2:] for name in allowed if name.startswith("*.")))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and (problem := self._problem(scope)) is not None:
            await problems.response(problem, scope["path"])(scope, receive, send)
        else:
            await self._app(scope, receive, send)

    def _problem(self, scope: Scope) -> Problem | None:
        if scope["path"] in _PROBES:
            return None
        host = _parsed(_values(scope, b"host"))
        if host is None:
            return BadRequest("The Host header is missing, doubled or malformed. Send the service's address in it.")
        if not self._is_allowed(host[0]):
            return UnknownHost(
                f"{host[0][:80]!r} is not a name of this service. If it should be, add it to the service's "
                "RAG_ALLOWED_HOSTS and start the service again."
            )
        if guarded(scope["path"]) and _foreign(scope, host):
            return Forbidden(
                "A web page of another origin sent this request. Open the service's own address, or use a program that "
                "sends no Origin.",
                "foreign_origin",
            )
        return None

    def _is_allowed(self, name: str) -> bool:
        if name in self._names or "." not in name:  # public names always have a dot
            return True
        return _is_address(name) or any(name.endswith(f".{domain}") for domain in self._domains)


def _values(scope: Scope, header: bytes) -> list[str]:
    return [value.decode("latin-1") for name, value in scope["headers"] if name == header]


def _parsed(values: Sequence[str]) -> tuple[str, int | None] | None:
    """Name and port of the only value, the port None if it is a default one; None if there is no valid host."""
    match = _HOST.fullmatch(values[0]) if len(values) == 1 else None
    if match is None:
        return None
    name, port = match["name"].lower(), int(match["port"]) if match["port"] else None
    if (port is not None and port > 65535) or (name.startswith("[") and not _is_address(name)):
        return None
    return name, None if port in _DEFAULT_PORTS else port


def _is_address(name: str) -> bool:
    """Whether a name is an IPv4 address, or an IPv6 address in brackets."""
    try:
        ipaddress.IPv6Address(name[1:-1]) if name.startswith("[") else ipaddress.IPv4Address(name)
    except ValueError:
        return False
    return True


def _foreign(scope: Scope, host: tuple[str, int | None]) -> bool:
    """Whether a browser reports that a page of another origin sent the request."""
    if any(site.strip().lower() in ("cross-site", "same-site") for site in _values(scope, b"sec-fetch-site")):
        return True
    return any(_origin(value) != host for value in _values(scope, b"origin"))


def _origin(value: str) -> tuple[str, int | None] | None:
    """Name and port of an origin; None for `null` and invalid origins."""
    try:
        parts = urlsplit(value)
    except ValueError:
        return None
    return _parsed([parts.netloc]) if parts.scheme in ("http", "https") else None
