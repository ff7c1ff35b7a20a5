"""The cookies of signing in: their names, their attributes, and which requests may change something with them.

Browsers send cookies of a host to all its ports, so the name has the port. Knows headers; knows no keys.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from starlette.requests import cookie_parser
from starlette.responses import Response
from starlette.types import Scope

from rag_service.errors import Forbidden

_READING = frozenset({"GET", "HEAD", "OPTIONS"})


@dataclass(frozen=True, slots=True)
class Cookie:
    """A cookie that scripts cannot read.

    Attributes:
        name: without the port.
        same_site: `lax` for one that comes along when the provider sends the browser back.
    """

    name: str
    same_site: Literal["strict", "lax"]

    def value(self, scope: Scope) -> str | None:
        """Its value in a request; None if the request has none."""
        for header in _values(scope, b"cookie"):
            if found := cookie_parser(header).get(self._name(scope)):
                return found
        return None

    def set_on(self, response: Response, scope: Scope, value: str, seconds: int) -> None:
        """Let the browser keep a value. Only https sends it back if it came over https, to a proxy or to the
        service."""
        response.set_cookie(self._name(scope), value, max_age=seconds, **self._attributes(scope))

    def delete_on(self, response: Response, scope: Scope) -> None:
        """Let the browser forget the value."""
        response.delete_cookie(self._name(scope), **self._attributes(scope))

    def _name(self, scope: Scope) -> str:
        host = next(iter(_values(scope, b"host")), "")
        port = host.rpartition(":")[2]
        return f"{self.name}-{port}" if ":" in host and port.isascii() and port.isdigit() else self.name

    def _attributes(self, scope: Scope) -> dict[str, Any]:
        return {
            "path": scope.get("root_path") or "/",
            "secure": scope["scheme"] == "https",
            "httponly": True,
            "samesite": self.same_site,
        }


SIGN_IN = Cookie("rag-sign-in", "strict")
"""The token of a sign-in."""
ATTEMPT = Cookie("rag-oidc", "lax")
"""An attempt to sign in at the OpenID provider."""


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


def _values(scope: Scope, header: bytes) -> list[str]:
    return [value.decode("latin-1") for name, value in scope["headers"] if name == header]
