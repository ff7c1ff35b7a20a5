"""Who asks: requests below /v1 carry `Authorization: Bearer KEY`, and the key names the principal.

Knows headers and keys; knows no endpoint. A request is refused before its body is read. Liveness, readiness, metrics,
the page and the API's description stay open.
"""

from __future__ import annotations

import hmac

from starlette.types import ASGIApp, Receive, Scope, Send

from rag_service.access.api_keys import ApiKeys
from rag_service.access.key_form import KEY, PREFIX
from rag_service.access.principal import ANYONE, LOCAL, Principal
from rag_service.api import problems
from rag_service.errors import Unauthorized

GUARDED = "/v1"
_FORWARDED = (b"forwarded", b"x-forwarded", b"x-original-forwarded", b"x-envoy-external", b"cf-", b"fastly-")
"""How headers begin by which proxies say that someone else asks."""
_FORWARDED_WHOLE = frozenset(
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

    `app.state.local_key` is accepted beside API keys.

    Args:
        is_open: whether requests without a key are anyone's. So are those then whose bearer token is plainly not a key
            of this service, since OpenAI's clients always send some. Not what a proxy forwards: that needs a key.
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
        await self._app(scope, receive, send)

    async def _principal(self, scope: Scope) -> Principal:
        """Raises Unauthorized, QueueUnavailable."""
        is_open = self._open and not any(_tells_of_a_proxy(name) for name, _ in scope["headers"])
        token = _bearer(scope)
        if token is None and not is_open:
            raise Unauthorized(
                "This service wants an API key: send one as `Authorization: Bearer KEY`. `rag keys create NAME` makes "
                "one where the service runs; the file `key` in its data folder holds its own user's."
            )
        if token is None or (is_open and not token.startswith(PREFIX)):
            return ANYONE
        state = scope["app"].state
        if KEY.fullmatch(token) and hmac.compare_digest(token, state.local_key):
            return LOCAL
        api_keys: ApiKeys = state.pipeline.api_keys
        principal = await api_keys.principal_of(token)
        if principal is None:
            raise Unauthorized(
                "This API key is not valid: it was revoked, or is not written as it was made. Send another one "
                "(`rag keys create NAME` makes it).",
                "invalid_key",
            )
        return principal


def guarded(path: str) -> bool:
    """Whether requests to this path need a key."""
    return path == GUARDED or path.startswith(f"{GUARDED}/")


def _tells_of_a_proxy(name: bytes) -> bool:
    return name in _FORWARDED_WHOLE or name.startswith(_FORWARDED)


def _bearer(scope: Scope) -> str | None:
    """The token of the Authorization header; None where there is none. Raises Unauthorized where it is no token."""
    sent = [value for name, value in scope["headers"] if name == b"authorization"]
    if not sent:
        return None
    scheme, _, token = sent[0].partition(b" ")
    token = token.strip()
    if len(sent) > 1 or scheme.lower() != b"bearer" or not token or not token.isascii() or b" " in token:
        raise Unauthorized(
            "The Authorization header cannot be read: send one, as `Authorization: Bearer KEY`.", "invalid_key"
        )
    return str(token, "ascii")
