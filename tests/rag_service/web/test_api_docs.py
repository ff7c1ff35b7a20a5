"""/docs in a browser: it shows the operations and asks no other host for anything."""

from __future__ import annotations

import shutil
from typing import Any

from playwright.async_api import async_playwright, expect


async def test_the_description_needs_no_other_host(live_url: str) -> None:
    asked: list[str] = []
    wrong: list[Any] = []
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=_chromium(), args=["--no-sandbox"])
        page = await browser.new_page()
        page.on("request", lambda request: asked.append(request.url))
        page.on("pageerror", lambda error: wrong.append(error))  # noqa: PLW0108
        await page.goto(f"{live_url}/docs")
        await expect(page.locator(".opblock").first).to_be_visible(timeout=20_000)
        assert await page.locator(".opblock").count() > 15
        await browser.close()
    assert asked
    assert not wrong
    assert all(url.startswith((live_url, "data:")) for url in asked)


def _chromium() -> str | None:
    return shutil.which("chromium") or shutil.which("chromium-browser")
