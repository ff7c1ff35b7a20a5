"""Thumbs on the page: given, commented, changed, found again and withdrawn."""

from __future__ import annotations

import re
from typing import Any

import httpx
import pytest
from playwright.async_api import expect

from tests.rag_service.web.conftest import BACKUPS

pytestmark = [
    pytest.mark.asyncio(loop_scope="session"),
    pytest.mark.decoder_only("feedback does not depend on the engine"),
]


async def kept(visit: Any) -> list[tuple[str, str]]:
    """(rating, comment) of the session's turns that have feedback, as the API has it."""
    session = await visit.page.evaluate("new URLSearchParams(location.hash.slice(1)).get('session')")
    async with httpx.AsyncClient(base_url=visit.url) as client:
        turns = (await client.get(f"/v1/sessions/{session}")).json()["turns"]
    given = [turn["feedback"] for turn in turns if turn["feedback"]]
    return [(one["rating"], one["comment"]) for one in given]


async def test_a_thumb_with_a_comment_is_kept_and_found_again(visit: Any, scene: Any) -> None:
    await visit.ask(BACKUPS)
    turn = await visit.answered()
    bad = turn.get_by_role("button", name="Bad answer")
    await expect(bad).to_have_attribute("aria-pressed", "false")
    await bad.click()
    await expect(bad).to_have_attribute("aria-pressed", "true")
    assert await kept(visit) == [("down", "")]
    await turn.get_by_label("What was wrong?").fill("It says <b>weeks</b>, I asked for days.")
    await turn.get_by_role("button", name="Send").click()
    await expect(turn.get_by_text("The operator can read your comment")).to_be_visible()
    assert await kept(visit) == [("down", "It says <b>weeks</b>, I asked for days.")]

    await visit.page.reload()
    turn = await visit.answered()
    good, bad = (turn.get_by_role("button", name=f"{which} answer") for which in ("Good", "Bad"))
    await expect(bad).to_have_attribute("aria-pressed", "true")
    await good.click()
    await expect(good).to_have_attribute("aria-pressed", "true")
    await expect(bad).to_have_attribute("aria-pressed", "false")
    assert await kept(visit) == [("up", "It says <b>weeks</b>, I asked for days.")], "a comment is not lost by chance"
    await visit.page.keyboard.press("Escape")
    await good.click()
    await expect(good).to_have_attribute("aria-pressed", "false")
    assert await kept(visit) == []


async def test_the_comment_is_written_with_the_keyboard(visit: Any, scene: Any) -> None:
    page = visit.page
    await visit.ask(BACKUPS)
    turn = await visit.answered()
    bad, field = turn.get_by_role("button", name="Bad answer"), turn.get_by_label("What was wrong?")
    await bad.focus()
    await page.keyboard.press("Enter")
    await expect(field).to_be_focused()
    await page.keyboard.press("Escape")
    await expect(field).to_be_hidden()
    await expect(bad).to_be_focused()
    assert await kept(visit) == [("down", "")], "Escape closes the field and withdraws nothing"

    good, field = turn.get_by_role("button", name="Good answer"), turn.get_by_label("What was good?")
    await good.click()
    await expect(field).to_be_focused()
    await page.keyboard.type("Days.")
    await page.keyboard.press("Tab")
    await page.keyboard.press("Enter")
    await expect(turn.get_by_text("The operator can read your comment")).to_be_visible()
    await expect(good).to_be_focused()
    assert await kept(visit) == [("up", "Days.")]


@pytest.mark.parametrize("key", ["Control", "Meta"])
async def test_a_comment_is_sent_with_ctrl_enter_and_the_page_says_so(visit: Any, scene: Any, key: str) -> None:
    """Enter makes a new line, and some thought that it had sent the comment."""
    page = visit.page
    await visit.ask(BACKUPS)
    turn = await visit.answered()
    await turn.get_by_role("button", name="Bad answer").click()
    await expect(turn.get_by_label("What was wrong?")).to_be_focused()
    await expect(turn.get_by_role("button", name="Send comment")).to_be_in_viewport(ratio=1)
    keys = turn.get_by_text(re.compile(r"^or (Ctrl|⌘)\+Enter$"))
    without_mouse = await page.evaluate("matchMedia('(hover: none)').matches")  # as a headless Firefox is
    await expect(keys).to_be_visible(visible=not without_mouse)
    await page.keyboard.type("Too")
    await page.keyboard.press("Enter")
    await page.keyboard.type("long.")
    assert await kept(visit) == [("down", "")]
    await page.keyboard.press(f"{key}+Enter")
    await expect(turn.get_by_text("Sent, thank you. The operator can read your comment.")).to_be_visible()
    await expect(page.locator("#announce")).to_have_text("Sent, thank you. The operator can read your comment.")
    assert await kept(visit) == [("down", "Too\nlong.")]


async def test_a_thumb_on_an_answer_that_is_gone_says_so(visit: Any, scene: Any) -> None:
    await visit.ask(BACKUPS)
    turn = await visit.answered()
    session = await visit.page.evaluate("new URLSearchParams(location.hash.slice(1)).get('session')")
    async with httpx.AsyncClient(base_url=visit.url) as client:
        assert (await client.delete(f"/v1/sessions/{session}")).status_code == 204
    good = turn.get_by_role("button", name="Good answer")
    visit.meant = 404
    async with visit.page.expect_response(lambda answer: answer.status == 404):
        await good.click()
    await expect(turn.get_by_text("It was erased, has expired, or never existed.")).to_be_visible()
    await expect(good).to_have_attribute("aria-pressed", "false")
