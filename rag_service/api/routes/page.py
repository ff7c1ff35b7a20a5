"""The web page at / and its files below /web.

The headers make the browser enforce these rules: the page runs only its own scripts and styles, connects only to this
service, cannot be framed, and never turns text into markup. Knows files and headers; knows no endpoint of the API.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

from fastapi import APIRouter, Request, Response

from rag_service.errors import NotFound

router = APIRouter(include_in_schema=False)

FOLDER = Path(__file__).parents[2] / "web"

TYPES = {
    "html": "text/html; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "svg": "image/svg+xml",
}
HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'; trusted-types 'none'",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
    "Cache-Control": "no-cache",
}


@router.api_route("/", methods=["GET", "HEAD"])
def page(request: Request) -> Response:
    return _file("index.html", request)


@router.api_route("/web/{name:path}", methods=["GET", "HEAD"])
def part(name: str, request: Request) -> Response:
    return _file(name, request)


def _file(name: str, request: Request) -> Response:
    """A file of the page, or 304 if the browser has it already. Raises NotFound."""
    if name not in {file.relative_to(FOLDER).as_posix() for file in FOLDER.rglob("*.*") if file.suffix[1:] in TYPES}:
        raise NotFound(f"The page has no file {name[:80]!r}. The page is at /.", "not_found")
    content = (FOLDER / name).read_bytes()
    tag = f'"{hashlib.sha256(content).hexdigest()[:32]}"'
    headers = {**HEADERS, "ETag": tag}
    known_tags = request.headers.get("if-none-match", "")
    if tag in [known.strip().removeprefix("W/") for known in known_tags.split(",")]:
        return Response(status_code=304, headers=headers)
    return Response(content, media_type=TYPES[name.rpartition(".")[2]], headers=headers)
