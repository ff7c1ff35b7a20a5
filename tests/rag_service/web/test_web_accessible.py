"""axe finds nothing on any state of the page, light and dark, on a desktop and a phone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import axe_playwright_python
import pytest
from playwright.async_api import expect

from tests.rag_service.web.conftest import BACKUPS

pytestmark = [
    pytest.mark.asyncio(loop_scope="session"),
    pytest.mark.decoder_only("the page is the same with every engine"),
]

AXE = (Path(axe_playwright_python.__file__).parent / "axe.min.js").read_text(encoding="utf-8")
PHONE = {"viewport": {"width": 360, "height": 740}, "has_touch": True, "is_mobile": True, "device_scale_factor": 2}
DEVICES: dict[str, dict[str, Any]] = {
    "light": {"color_scheme": "light"},
    "dark": {"color_scheme": "dark"},
    "phone": PHONE,
    "dark phone": {**PHONE, "color_scheme": "dark"},
}


async def violations(page: Any) -> list[str]:
    """What axe finds, once nothing that is shown moves. What is folded away never starts to move in Firefox."""
    await page.evaluate(
        "Promise.all(document.getAnimations().map((one) => one.playState === 'running' && "
        "one.effect.target.checkVisibility() && one.effect.getTiming().iterations !== Infinity && one.finished))"
    )
    await page.evaluate(AXE)
    found = await page.evaluate("axe.run()")
    return [
        f"{rule['id']}: {rule['help']}: {node['html'][:160]} {node['failureSummary']}"
        for rule in found["violations"]
        for node in rule["nodes"]
    ]


@pytest.mark.parametrize("device", DEVICES)
async def test_axe_finds_nothing(new_visit: Any, scene: Any, device: str) -> None:
    visit = await new_visit(**DEVICES[device])
    page = visit.page
    await page.get_by_role("combobox", name="Collection").select_option("handbook")
    await expect(page.locator("#starters button")).to_have_count(3)
    assert await violations(page) == []
    await visit.ask(BACKUPS)
    turn = await visit.answered()
    await turn.locator(".run.copied").first.click()
    await expect(page.locator("#passages .active")).to_be_visible()
    assert await violations(page) == []
    await page.keyboard.press("Escape")
    await turn.get_by_text("How it was made").click()
    await turn.get_by_role("button", name="Bad answer").click()
    await expect(turn.get_by_label("What was wrong?")).to_be_visible()
    assert await violations(page) == []
    await page.get_by_role("button", name="Documents", exact=True).click()
    await page.get_by_role("button", name="Read Data retention policy").click()
    await expect(page.locator("#reading .passage-text")).to_be_visible()
    assert await violations(page) == []
    await page.keyboard.press("Escape")
    await expect(page.locator("#reading")).to_be_hidden()
    assert await violations(page) == []
    await page.get_by_role("button", name="Rename this collection").click()
    assert await violations(page) == []
    await page.keyboard.press("Escape")
    await page.get_by_role("button", name="History").click()
    await expect(page.locator("#history .session").first).to_be_visible()
    assert await violations(page) == []


async def test_scrollbars_are_dark_on_a_dark_page(new_visit: Any, scene: Any) -> None:
    """They were white in Firefox. A headless Chromium shows none."""
    visit = await new_visit(**DEVICES["dark"])
    page = visit.page
    await page.get_by_role("combobox", name="Collection").select_option("handbook")
    await page.get_by_role("button", name="Documents", exact=True).click()
    await page.get_by_role("button", name="Read Data retention policy").click()
    await expect(page.locator("#reading .passage-text")).to_be_visible()
    place = await page.locator("#reading .reading").bounding_box()
    edge = {**place, "x": place["x"] + place["width"] - 20, "width": 18}
    lightest = (await visit.picture(edge)).getextrema()[1]
    assert lightest < 160  # type: ignore[operator]
