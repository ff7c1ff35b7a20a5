"""Rejects bodies above their limit before they are read whole. Knows sizes and the paths that accept documents."""

from __future__ import annotations

import re

from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from rag_service.api import problems
from rag_service.errors import TooLarge
from rag_service.setting_sections import Limits

_DOCUMENTS = re.compile(r"/v1/collections/[^/]+/documents")
"""Path to which documents are added, as JSON or as uploads."""


class BodyLimit:
    """ASGI middleware that answers 413 to bodies above the limit, without reading the rest."""

    def __init__(self, app: ASGIApp, limits: Limits) -> None:
        self._app = app
        self._limits = limits

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = dict(scope["headers"])
        limit = self._limit(scope["path"], headers.get(b"content-type", b""))
        length = headers.get(b"content-length", b"0")
        if length.isdigit() and int(length[:20]) > limit:
            await problems.response(_too_large(limit), scope["path"])(scope, receive, send)
            return
        received = 0

        async def receive_counted() -> Message:
            nonlocal received
            message = await receive()
            received += len(message.get("body", b""))
            if received > limit:
                raise HTTPException(413, _too_large(limit).detail)
            return message

        await self._app(scope, receive_counted, send)

    def _limit(self, path: str, content_type: bytes) -> int:
        if not _DOCUMENTS.fullmatch(path):
            return self._limits.body_bytes
        upload = content_type.lower().startswith(b"multipart/form-data")
        return self._limits.upload_bytes if upload else self._limits.documents_bytes


def _too_large(limit: int) -> TooLarge:
    return TooLarge(f"The body is larger than {limit:,} bytes. Send less, or split it into several requests.")
