"""How the page's files are served: types, policy, caching; what the package holds of them."""

from __future__ import annotations

import posixpath
import re
from pathlib import Path

import httpx
import pytest

import rag_service
from retriever.parsing.formats import SUPPORTED

WEB = Path(rag_service.__file__).parent / "web"
NAMES = sorted(path.relative_to(WEB).as_posix() for path in WEB.rglob("*") if path.is_file())


async def test_the_page_and_every_file_it_names_are_served(client: httpx.AsyncClient) -> None:
    page = await client.get("/")
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    named = re.findall(r'(?:src|href)="(web/[^"]+)"', page.text)
    assert {"web/app.js", "web/style.css", "web/icon.svg"} <= set(named)
    waiting, seen = set(named), set()
    while waiting:
        name = waiting.pop()
        seen.add(name)
        answer = await client.get(f"/{name}")
        assert answer.status_code == 200, name
        imported = re.findall(r'from "(\.[^"]+)"', answer.text)
        waiting |= {posixpath.normpath(posixpath.join(posixpath.dirname(name), path)) for path in imported} - seen
    assert {name.removeprefix("web/") for name in seen} == set(NAMES) - {"index.html"}


@pytest.mark.parametrize("name", NAMES)
async def test_a_file_has_its_type_and_a_strict_policy(client: httpx.AsyncClient, name: str) -> None:
    answer = await client.get(f"/web/{name}")
    kinds = {"html": "text/html", "js": "text/javascript", "css": "text/css", "svg": "image/svg+xml"}
    assert answer.headers["content-type"].partition(";")[0] == kinds[name.rpartition(".")[2]]
    policy = answer.headers["content-security-policy"]
    assert "unsafe" not in policy
    for rule in ("default-src 'none'", "script-src 'self'", "frame-ancestors 'none'", "require-trusted-types-for"):
        assert rule in policy
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["referrer-policy"] == "no-referrer"
    assert answer.headers["cache-control"] == "no-cache"
    again = await client.get(f"/web/{name}", headers={"If-None-Match": f'"x", W/{answer.headers["etag"]}'})
    assert (again.status_code, again.content) == (304, b"")
    other = await client.get(f"/web/{name}", headers={"If-None-Match": '"x"'})
    assert other.content == answer.content == (WEB / name).read_bytes()


async def test_head_tells_the_same(client: httpx.AsyncClient) -> None:
    answer = await client.head("/")
    assert answer.status_code == 200
    assert answer.headers["etag"] == (await client.get("/")).headers["etag"]


@pytest.mark.parametrize("name", ["nothing.js", "..%2f__init__.py", "%2e%2e/main.py", "app.py", "__pycache__", ""])
async def test_nothing_else_is_served(client: httpx.AsyncClient, name: str) -> None:
    assert (await client.get(f"/web/{name}")).status_code == 404


@pytest.mark.parametrize("name", NAMES)
def test_nothing_is_inline_or_from_elsewhere_or_parsed_from_text(name: str) -> None:
    text = (WEB / name).read_text(encoding="utf-8")
    assert len(text.splitlines()) < 400
    assert not re.search(r"https?://(?!www\.w3\.org/2000/svg)", text)
    assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function", text)
    if name.endswith(".html"):
        assert not re.search(r"<style|\sstyle=|\son[a-z]+=|<script(?![^>]*\ssrc=)", text)


def test_the_page_offers_every_format_that_can_be_read() -> None:
    offered = re.search(r'FORMATS = "([^"]+)"', (WEB / "documents" / "documents.js").read_text(encoding="utf-8"))
    assert offered is not None
    assert set(offered[1].split(",")) == set(SUPPORTED)
