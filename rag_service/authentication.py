"""Who asks: requests below /v1 carry `Authorization: Bearer KEY`, and the key names the tenant.

Knows headers and keys; knows no endpoint. A request is refused before its body is read. Liveness, readiness, metrics,
the page and the API's description stay open.
"""

from __future__ import annotations

import ipaddress

from starlette.types import ASGIApp, Receive, Scope, Send

from rag_service import problems
from rag_service.api_keys import PREFIX, ApiKeys
from rag_service.errors import Unauthorized
from rag_service.settings import Settings
from retriever.library import DEFAULT_TENANT

_GUARDED = "/v1"
_FORWARDED = {b"forwarded", b"x-forwarded-for"}
"""Headers by which proxies say that someone else asks."""


class KeyCheck:
    """ASGI middleware that sets `scope["state"]["tenant"]`, or answers 401.

    Where keys are not required, requests without one are the default tenant's. So are those whose bearer token is
    plainly not a key of this service, since OpenAI's clients always send some; a key that is none any more is refused.
    """

    def __init__(self, app: ASGIApp, settings: Settings) -> None:
        self._app = app
        self._settings = settings

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        path = scope.get("path", "")
        if scope["type"] != "http" or not (path == _GUARDED or path.startswith(f"{_GUARDED}/")):
            await self._app(scope, receive, send)
            return
        try:
            tenant = await self._tenant(scope)
        except Exception as error:
            await problems.response(problems.as_problem(error), path)(scope, receive, send)
            return
        scope.setdefault("state", {})["tenant"] = tenant
        await self._app(scope, receive, send)

    async def _tenant(self, scope: Scope) -> str:
        """Raises Unauthorized, QueueUnavailable."""
        required = self._required(scope)
        token = _bearer(scope)
        if token is None and required:
            raise Unauthorized(
                "This service wants an API key: send one as `Authorization: Bearer KEY`. `rag keys create NAME` makes "
                "one where the service runs."
            )
        if token is None or not (required or token.startswith(PREFIX)):
            return DEFAULT_TENANT
        api_keys: ApiKeys = scope["app"].state.pipeline.api_keys
        tenant = await api_keys.tenant_of(token)
        if tenant is None:
            raise Unauthorized(
                "This API key is not valid: it was revoked, or is not written as it was made. Send another one "
                "(`rag keys create NAME` makes it).",
                "invalid_key",
            )
        return tenant

    def _required(self, scope: Scope) -> bool:
        """As the settings say; where they leave it open, also for who comes through a proxy or not over loopback."""
        settings = self._settings
        if settings.keys_required or settings.keys.required is not None or settings.keys.reached_at is not None:
            return settings.keys_required
        if any(name in _FORWARDED for name, _ in scope["headers"]):
            return True
        server = scope.get("server")
        try:
            return server is not None and not ipaddress.ip_address(server[0]).is_loopback
        except ValueError:  # a name or a socket file: not for this rule to judge
            return False


def _bearer(scope: Scope) -> str | None:
    """The token of the Authorization header; None where there is none. Another scheme's is no key."""
    for name, value in scope["headers"]:
        if name == b"authorization":
            scheme, _, token = value.decode("latin-1").partition(" ")
            return token.strip() if scheme.lower() == "bearer" else ""
    return None
