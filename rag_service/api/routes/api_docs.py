"""/docs: Swagger UI of the OpenAPI document. A Python package has its files; the page loads nothing from elsewhere."""

from __future__ import annotations

from importlib.resources import files

from fastapi import APIRouter, Response

from rag_service.api.routes.page import HEADERS
from rag_service.errors import NotFound

router = APIRouter(prefix="/docs", include_in_schema=False)

_HEADERS = {
    **HEADERS,
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; "
    "connect-src 'self'; img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
}
_TYPES = {"swagger-ui-bundle.js": "text/javascript", "swagger-ui.css": "text/css"}
_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<title>rag-service: HTTP API</title>
<link rel="icon" href="web/icon.svg">
<link rel="stylesheet" href="docs/swagger-ui.css">
<script src="docs/swagger-ui-bundle.js" defer></script>
<script src="docs/start.js" defer></script>
</head>
<body><div id="swagger-ui"></div></body>
</html>
"""
_START = """SwaggerUIBundle({
  url: new URL("openapi.json", document.baseURI).href,
  dom_id: "#swagger-ui",
  deepLinking: true,
  validatorUrl: null,
});
"""


@router.get("")
def page() -> Response:
    return Response(_PAGE, media_type="text/html; charset=utf-8", headers=_HEADERS)


@router.get("/{name}")
def part(name: str) -> Response:
    """A script or style of the page. Raises NotFound."""
    if name == "start.js":
        return Response(_START, media_type="text/javascript; charset=utf-8", headers=_HEADERS)
    if name not in _TYPES:
        raise NotFound(f"The page has no file {name[:80]!r}. The page is at /docs.", "not_found")
    content = (files("fastapi_offline") / "static" / name).read_bytes()
    return Response(content, media_type=f"{_TYPES[name]}; charset=utf-8", headers=_HEADERS)
