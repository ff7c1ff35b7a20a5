"""Under which name the service is asked, and from which page: what keeps foreign pages in the user's browser out.

A page whose name was made to point at this machine (DNS rebinding) asks under that name and is refused; a page from
elsewhere is refused by its `Origin`. Requests without one, as other programs send them, pass. Nobody is granted
anything: there are no CORS headers. Knows headers; knows no keys and no endpoint.
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
"""Asked by machines that know the service by any name; they tell nothing."""
_HOST = re.compile(r"(?P<name>\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)(?::(?P<port>[0-9]{1,5})?)?", re.ASCII)
_USUAL_PORTS = (None, 80, 443)


class HostCheck:
    """ASGI middleware, outermost: answers 400, 421 and 403 to what is not meant for this service.

    Args:
        host: that the service listens on.
        allowed: further names; `*.name` for all below one.
    """

    def __init__(self, app: ASGIApp, *, host: str, allowed: Sequence[str]) -> None:
        self._app = app
        self._names = {host.lower(), *(name for name in allowed if not name.startswith("*."))}
        self._endings = ("localhost", *(name[2:] for name in allowed if name.startswith("*.")))

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
            return BadRequest("The Host header is missing, doubled or malformed; send the service's address in it.")
        if not self._known(host[0]):
            return UnknownHost(
                f"This service does not go by the name {host[0][:80]!r}. If it is its own, add the name to "
                "RAG_ALLOWED_HOSTS where the service runs and start it again."
            )
        if guarded(scope["path"]) and _foreign(scope, host):
            return Forbidden(
                "A web page of another origin asked for this, which no page may: open the service's own address, or "
                "ask from a program that sends no Origin.",
                "foreign_origin",
            )
        return None

    def _known(self, name: str) -> bool:
        if name in self._names or "." not in name:  # no public name is without a dot
            return True
        return _is_address(name) or any(name.endswith(f".{ending}") for ending in self._endings)


def _values(scope: Scope, header: bytes) -> list[str]:
    return [value.decode("latin-1") for name, value in scope["headers"] if name == header]


def _parsed(values: Sequence[str]) -> tuple[str, int | None] | None:
    """Name and port, where it is not a usual one; None for what is no host, or not one."""
    found = _HOST.fullmatch(values[0]) if len(values) == 1 else None
    if found is None:
        return None
    name, port = found["name"].lower(), int(found["port"]) if found["port"] else None
    if (port is not None and port > 65535) or (name.startswith("[") and not _is_address(name)):
        return None
    return name, None if port in _USUAL_PORTS else port


def _is_address(name: str) -> bool:
    """Whether a name is an address; those of IPv6 stand in brackets."""
    try:
        ipaddress.IPv6Address(name[1:-1]) if name.startswith("[") else ipaddress.IPv4Address(name)
    except ValueError:
        return False
    return True


def _foreign(scope: Scope, host: tuple[str, int | None]) -> bool:
    """Whether a browser says that a page of another origin asks."""
    if any(site.strip().lower() in ("cross-site", "same-site") for site in _values(scope, b"sec-fetch-site")):
        return True
    return any(_origin(value) != host for value in _values(scope, b"origin"))


def _origin(value: str) -> tuple[str, int | None] | None:
    """Name and port of an origin; None for `null` and what is none."""
    try:
        parts = urlsplit(value)
    except ValueError:
        return None
    return _parsed([parts.netloc]) if parts.scheme in ("http", "https") else None
