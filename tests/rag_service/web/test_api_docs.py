"""/docs in a browser: it shows the operations and asks no other host for anything."""

from __future__ import annotations

from typing import Any

import pytest
from playwright.async_api import expect

from tests.support.peers.browsers import Browsers


@pytest.mark.asyncio(loop_scope="session")
async def test_the_description_needs_no_other_host(browsers: Browsers, live_url: str) -> None:
    asked: list[str] = []
    wrong: list[Any] = []
    page = await (await browsers.context()).new_page()
    page.on("request", lambda request: asked.append(request.url))
    page.on("pageerror", lambda error: wrong.append(error))  # noqa: PLW0108
    await page.goto(f"{live_url}/docs")
    await expect(page.locator(".opblock").first).to_be_visible(timeout=20_000)
    assert await page.locator(".opblock").count() > 15
    await page.close()
    assert asked
    assert not wrong
    assert all(url.startswith((live_url, "data:")) for url in asked)
