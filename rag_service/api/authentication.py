"""Authentication: requests below /v1 send `Authorization: Bearer KEY` or `x-api-key: KEY`; the key gives the principal.
Browsers that signed in, with a key or at the OpenID provider, send a cookie instead.

The check runs before the body is read. Liveness, readiness, metrics, the web page and the API's description need no
key. Knows headers and keys; knows no endpoint.
"""

from __future__ import annotations

import hmac
from functools import partial
from typing import Any

from starlette.types import ASGIApp, Receive, Scope, Send

from rag_service.access.api_keys import ApiKeys
from rag_service.access.key_form import KEY, PREFIX
from rag_service.access.principal import ANYONE, LOCAL, SIGNING_IN, Principal
from rag_service.access.sign_ins import SignIns
from rag_service.api import problems
from rag_service.api.revocation import Revocable
from rag_service.api.sign_in_cookie import SIGN_IN, check_origin
from rag_service.errors import Unauthorized
from rag_service.settings import Settings
from workers.errors import QueueUnavailable

GUARDED = "/v1"
_SIGN_IN = frozenset({("POST", "/v1/sign-in"), ("DELETE", "/v1/sign-in")})
"""Requests that need no key before their body."""
_HEADERS = {"Authorization": "Bearer KEY", "x-api-key": "KEY"}
"""Headers with a key, in the order in which they count, and the forms of their values."""
_PROXY_PREFIXES = (b"forwarded", b"x-forwarded", b"x-original-forwarded", b"x-envoy-external", b"cf-", b"fastly-")
"""Prefixes of the headers by which proxies name the client of a forwarded request."""
_PROXY_HEADERS = frozenset(
    {
        b"via",
        b"x-real-ip",
        b"x-client-ip",
        b"x-cluster-client-ip",
        b"x-remote-ip",
        b"x-remote-addr",
        b"x-proxyuser-ip",
        b"true-client-ip",
        b"client-ip",
        b"cdn-loop",
    }
)


class KeyCheck:
    """ASGI middleware that sets `scope["state"]["principal"]`, or answers 401.

    It accepts API keys and `app.state.local_key`.

    Args:
        is_open: whether requests without a key are accepted, as `ANYONE`. Then requests are accepted too if their
            token does not have the prefix of a key, because OpenAI's clients always send a token. Requests that a
            proxy forwards always need a key.
    """

    def __init__(self, app: ASGIApp, *, is_open: bool) -> None:
        self._app = app
        self._open = is_open

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or not guarded(scope["path"]):
            await self._app(scope, receive, send)
            return
        try:
            principal = await self._principal(scope)
        except Exception as error:
            await problems.response(problems.as_problem(error), scope["path"])(scope, receive, send)
            return
        scope.setdefault("state", {})["principal"] = principal
        await Revocable(self._app, partial(self._is_still, principal, scope))(scope, receive, send)

    async def _is_still(self, principal: Principal, scope: Scope) -> bool:
        """Whether the request would still have this principal; True while Redis does not answer."""
        try:
            return await self._principal(scope) == principal
        except Unauthorized:
            return False
        except QueueUnavailable:
            return True

    async def _principal(self, scope: Scope) -> Principal:
        """Raises Unauthorized, Forbidden, QueueUnavailable."""
        is_open = self._open and not any(_is_proxy_header(name) for name, _ in scope["headers"])
        token = _token(scope)
        if token is None and (cookie := SIGN_IN.value(scope)) is not None:
            state = scope["app"].state
            sign_ins: SignIns = state.pipeline.sign_ins
            signed_in = await sign_ins.principal_of(cookie, state.local_key)
            if signed_in is not None:
                check_origin(scope)
                return signed_in
        if token is None and (scope["method"], scope["path"]) in _SIGN_IN:
            return SIGNING_IN
        if token is None and not is_open:
            settings: Settings = scope["app"].state.pipeline.settings
            offered: dict[str, Any] = {"provider": settings.oidc.name} if settings.oidc.issuer else {}
            if SIGN_IN.value(scope) is not None:
                raise Unauthorized(
                    "You are signed out: the time is over, or the key was revoked. Sign in again.",
                    "signed_out",
                    **offered,
                )
            raise Unauthorized(
                "This service needs an API key. Send one as `Authorization: Bearer KEY` or `x-api-key: KEY`. On the "
                "service's machine, `rag keys create NAME` creates a key; the local key is the file `key` in the data "
                "folder.",
                **offered,
            )
        if token is None or (is_open and not token.startswith(PREFIX)):
            return ANYONE
        principal = await principal_of_key(scope, token)
        if principal is None:
            raise invalid_key()
        return principal


async def principal_of_key(scope: Scope, key: str) -> Principal | None:
    """The principal of an API key or the local key; None if it is none of these. Raises QueueUnavailable."""
    state = scope["app"].state
    if KEY.fullmatch(key) and hmac.compare_digest(key, state.local_key):
        return LOCAL
    api_keys: ApiKeys = state.pipeline.api_keys
    return await api_keys.principal_of(key)


def invalid_key() -> Unauthorized:
    return Unauthorized(
        "This API key is not valid: it is misspelt, was revoked or has expired. Send another one; on the service's "
        "machine, `rag keys create NAME` creates it.",
        "invalid_key",
    )


def guarded(path: str) -> bool:
    """Whether requests to a path need a key."""
    return path == GUARDED or path.startswith(f"{GUARDED}/")


def _is_proxy_header(name: bytes) -> bool:
    return name in _PROXY_HEADERS or name.startswith(_PROXY_PREFIXES)


def _token(scope: Scope) -> str | None:
    """The token in the first of `_HEADERS` that is there; None without any. Raises Unauthorized if it is unreadable."""
    for name, form in _HEADERS.items():
        values = [value for header, value in scope["headers"] if header == name.lower().encode()]
        if not values:
            continue
        prefix = form.removesuffix("KEY").encode()
        scheme, token = values[0][: len(prefix)], values[0][len(prefix) :].strip()
        if len(values) > 1 or scheme.lower() != prefix.lower() or not token or not token.isascii() or b" " in token:
            raise Unauthorized(f"The {name} header cannot be read. Send one, as `{name}: {form}`.", "invalid_key")
        return str(token, "ascii")
    return None
