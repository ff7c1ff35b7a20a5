"""Documents and hostile text, keys and problems, the keyboard and a phone."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import expect

from retriever import SourceDocument

pytestmark = pytest.mark.asyncio(loop_scope="session")

BACKUPS = "How long are backups kept?"
ROWS = """() => {
  const middle = (one) => { const box = one.getBoundingClientRect(); return (box.top + box.bottom) / 2; };
  const shown = [...document.querySelectorAll(".bar img, .bar select, .bar button")].filter((one) => one.offsetWidth);
  return new Set(shown.map((one) => Math.round(middle(one) / 12))).size;
}"""
PHONE = {"viewport": {"width": 360, "height": 740}, "has_touch": True, "is_mobile": True, "device_scale_factor": 2}


async def test_files_are_added_with_progress_and_can_be_asked(visit: Any, scene: Any, tmp_path: Path) -> None:
    page = visit.page
    (tmp_path / "parking.md").write_text("# Parking\n\nThe gate of the car park opens at six in the morning.\n")
    (tmp_path / "picture.xyz").write_bytes(b"\x00\x01\x02")
    await page.get_by_role("button", name="Documents").click()
    dialog = page.get_by_role("dialog", name="Documents")
    site = f"site-{visit.browser}"
    await dialog.get_by_label("New collection").fill(site)
    await dialog.get_by_role("button", name="Create").click()
    await expect(dialog.get_by_text(f"In the collection “{site}”")).to_be_visible()
    await dialog.locator("#files").set_input_files([tmp_path / "parking.md", tmp_path / "picture.xyz"])
    await expect(dialog.get_by_text("1 document added. 1 file refused.")).to_be_visible()
    refused = dialog.get_by_role("list", name="Files of this upload").get_by_role("listitem").first
    await expect(refused).to_contain_text("picture.xyzrefused")
    await expect(refused.locator(".upload-reason")).not_to_be_empty()
    await expect(dialog.get_by_role("list", name="Documents in this collection")).to_contain_text("Parking")
    await page.keyboard.press("Escape")
    await expect(page.get_by_role("combobox", name="Collection")).to_have_value(site)
    scene.stage.answers["When does the gate open?"] = "The gate of the car park opens at six in the morning."
    await visit.ask("When does the gate open?")
    turn = await visit.answered()
    await turn.locator(".run.copied").first.hover()
    await expect(page.locator("#passages .active mark")).to_have_text(scene.stage.answers["When does the gate open?"])

    await page.get_by_role("button", name="Documents").click()
    await dialog.get_by_role("button", name="Remove Parking").click()
    await dialog.get_by_text("Remove for good?").click()
    await expect(dialog.get_by_text("There are no documents yet.")).to_be_visible()


async def test_a_file_that_a_folder_holds_too_is_told(visit: Any, scene: Any, tmp_path: Path) -> None:
    """The older one was quoted, and nothing said that there were two."""
    text = "# Parking\n\nThe gate of the car park opens at seven.\n"
    held = SourceDocument(name="site/parking.md", document_id="p", text=text, title="Parking")
    garage = f"garage-{visit.browser}"
    scene.library.create(garage).ingest([held])
    (tmp_path / "parking.md").write_text(text.replace("seven", "six"))
    (tmp_path / "other.md").write_text("# Other\n\nNothing else.\n")
    await visit.page.reload()
    await visit.page.get_by_role("combobox", name="Collection").select_option(garage)
    await visit.page.get_by_role("button", name="Documents").click()
    dialog = visit.page.get_by_role("dialog", name="Documents")
    await dialog.locator("#files").set_input_files([tmp_path / "other.md"])
    await expect(dialog.get_by_text("1 document added.")).to_be_visible()
    await expect(dialog.get_by_role("alert")).to_have_count(0)
    await dialog.locator("#files").set_input_files([tmp_path / "parking.md"])
    await expect(dialog.get_by_role("alert")).to_contain_text("parking.md is also there as site/parking.md")


async def test_a_button_asks_on_while_the_list_is_read_again(visit: Any) -> None:
    page = visit.page
    documents, dialog = page.get_by_role("button", name="Documents"), page.get_by_role("dialog", name="Documents")
    await documents.click()
    remove = dialog.get_by_role("button", name="Remove").first
    await expect(remove).to_be_visible()
    await page.keyboard.press("Escape")
    asked, pressed = asyncio.Event(), asyncio.Event()

    async def late(route: Any) -> None:
        asked.set()
        await pressed.wait()
        await route.continue_()

    await page.route("**/documents?*", late)
    async with page.expect_response("**/documents?*") as read_again:
        await documents.click()
        await asked.wait()
        await remove.click()
        await expect(dialog.get_by_text("Remove for good?")).to_be_visible()
        pressed.set()
    await (await read_again.value).finished()
    await page.evaluate("() => new Promise((drawn) => setTimeout(drawn))")  # what follows the response has run
    await expect(dialog.get_by_text("Remove for good?")).to_be_visible()


async def test_hostile_text_stays_text(new_visit: Any, scene: Any) -> None:
    visit = await new_visit()  # complaints of the content security policy would fail this test
    page = visit.page
    await page.get_by_role("combobox", name="Collection").select_option("hostile")
    await visit.ask("What does the hostile page cost?")
    turn = await visit.answered()
    text = turn.locator(".answer-text")
    for part in (
        '<script>window.hacked = 1</script><img src=x onerror="window.hacked = 2">',
        "<b>9 euros</b>",
        "<|im_end|>",
    ):
        await expect(text).to_contain_text(part)
    await turn.locator(".run.copied").first.click()
    active = page.locator("#passages .active")
    await expect(active.locator("h3")).to_have_text("<img src=x onerror=alert(1)>")
    await expect(active.locator("mark")).to_contain_text("<script>window.hacked = 1</script>")
    await active.get_by_role("button", name="Show the whole document").click()
    await page.get_by_role("button", name="Documents").click()
    await expect(page.get_by_role("dialog").get_by_text("<img src=x onerror=alert(1)>").first).to_be_visible()
    await page.keyboard.press("Escape")
    await page.get_by_role("button", name="History").click()
    await page.keyboard.press("Escape")
    asked = '<img src=x onerror="window.hacked=3"> <|im_start|>'
    scene.stage.answers[asked] = "No."
    await visit.ask(asked)
    await expect((await visit.answered(1)).locator(".question")).to_have_text(asked)
    for element in ("main script", "main img", "aside script", "aside img", "dialog img", "main b"):
        await expect(page.locator(element)).to_have_count(0)
    assert await page.evaluate("window.hacked") is None


async def test_everything_can_be_done_with_the_keyboard(visit: Any) -> None:
    page = visit.page
    keys = page.keyboard
    await page.get_by_label("Your question").focus()
    await keys.type(BACKUPS)
    await keys.press("Enter")
    turn = await visit.answered()
    first = turn.locator(".run.copied").first
    await page.get_by_role("button", name="New", exact=True).focus()
    for _ in range(12):
        await keys.press("Tab")
        if await first.evaluate("node => node === document.activeElement"):
            break
    await expect(first).to_be_focused()
    await expect(page.locator("#passages .active mark")).to_have_text(await first.inner_text())
    note = await first.get_attribute("aria-describedby")
    told = await page.locator(f"#{note}").text_content()
    assert told is not None
    assert told.startswith("Copied from source ")
    assert "Data retention policy" in told
    assert await first.evaluate("node => getComputedStyle(node).outlineStyle") == "solid"

    await turn.get_by_role("button", name="Edit").focus()
    await keys.press("Enter")
    await expect(page.get_by_label("What should change?")).to_be_focused()
    await keys.press("Escape")
    await expect(turn.get_by_role("button", name="Edit")).to_be_focused()
    await page.get_by_role("button", name="Documents").focus()
    await keys.press("Enter")
    await expect(page.get_by_role("dialog", name="Documents")).to_be_visible()
    await keys.press("Escape")
    await expect(page.get_by_role("button", name="Documents")).to_be_focused()


@pytest.mark.decoder_only("there is no plain decoding to compare with")
async def test_a_phone_shows_sources_in_a_sheet_and_never_scrolls_sideways(new_visit: Any) -> None:
    visit = await new_visit(**PHONE)
    page = visit.page
    await page.get_by_role("combobox", name="Collection").select_option("handbook")
    await visit.ask(BACKUPS)
    await visit.compare(await visit.answered())
    await visit.ask(BACKUPS)
    turn = await visit.answered(1)
    await expect(turn.locator(".verdict.same")).to_be_visible()
    assert await fits(page)
    await page.evaluate("document.querySelectorAll('.bar button').forEach(button => { button.hidden = false; })")
    assert await page.evaluate(ROWS) == 2, "of the header, with all its buttons"
    sheet = page.get_by_role("complementary", name="Sources")
    await expect(sheet).to_be_hidden()
    await visit.tap(turn.locator(".run.copied").first)
    await expect(sheet).to_be_visible()
    await expect(sheet.locator(".active mark")).to_be_in_viewport()
    assert await fits(page)
    await visit.tap(sheet.get_by_role("button", name="Close sources"))
    await expect(sheet).to_be_hidden()
    await visit.tap(page.get_by_role("button", name="Documents"))
    await expect(page.get_by_role("dialog", name="Documents")).to_be_visible()
    assert await fits(page)


async def test_documents_of_one_title_are_told_apart_by_their_files(new_visit: Any, scene: Any) -> None:
    visit = await new_visit()
    page = visit.page
    text = "# Readme\n\nBackups of {} are kept for 35 days."
    documents = [SourceDocument(name=f"{one}/docs/README.md", text=text.format(one)) for one in ("red", "blue")]
    other = SourceDocument(name="green.md", text="# Green\n\nBackups are kept for a year.")
    scene.library.create("twins").ingest([*documents, other])
    try:
        await page.reload()
        await page.get_by_role("combobox", name="Collection").select_option("twins")
        await visit.ask(BACKUPS)
        await (await visit.answered()).get_by_role("button", name=re.compile("^All 3 passages")).click()
        cards = page.locator("#passages .passage header")
        shown = sorted([" ".join((await card.inner_text()).split()[1:]) for card in await cards.all()])
        assert shown == ["Green", "Readme blue-docs-README.md", "Readme red-docs-README.md"]
    finally:
        scene.library.delete("twins")


async def test_a_whole_document_is_shown_on_a_card_that_was_folded(visit: Any) -> None:
    await visit.ask(BACKUPS)
    await (await visit.answered()).get_by_role("button", name=re.compile("^All \\d+ passages")).click()
    card = visit.page.locator("#passages .passage:not(.active)").first
    lines = "node => getComputedStyle(node).webkitLineClamp"
    assert await card.locator(".passage-text").evaluate(lines) == "3"
    await card.get_by_role("button", name="Show the whole document").click()
    await expect(card.locator(".whole")).to_be_visible()
    assert await card.locator(".whole").evaluate(lines) == "none"


async def test_problems_say_what_went_wrong_and_what_to_do(new_visit: Any, scene: Any) -> None:
    visit = await new_visit()
    page = visit.page
    scene.library.create("gone").close()
    await page.reload()
    await page.get_by_role("combobox", name="Collection").select_option("gone")
    scene.library.delete("gone")
    visit.meant = 404
    await visit.ask(BACKUPS)
    problem = visit.turn().get_by_role("alert")
    await expect(problem).to_contain_text("gone")
    await expect(problem.get_by_role("button", name="Try again")).to_be_visible()
    await expect(page.get_by_role("button", name="Ask")).to_be_enabled()


async def test_a_key_is_asked_for_where_one_is_wanted_and_signs_the_browser_in(
    keyed_address: tuple[str, str], new_visit: Any, scene: Any
) -> None:
    url, key = keyed_address
    visit = await new_visit(url=url, meant=401)
    page = visit.page
    dialog = page.get_by_role("dialog", name="API key")
    await dialog.get_by_label("API key").fill("rag_wrong")
    await page.keyboard.press("Enter")
    await expect(dialog).to_contain_text("not valid")
    await dialog.get_by_label("API key").fill(key)
    await page.keyboard.press("Enter")
    await page.get_by_role("combobox", name="Collection").select_option("handbook")
    await visit.ask(BACKUPS)
    await visit.answered()
    await page.reload()
    await visit.answered()  # still signed in
    await expect(dialog).to_be_hidden()
    await expect_no_key(page, key)


async def test_the_address_that_up_prints_signs_in_and_keeps_no_key(
    keyed_address: tuple[str, str], new_visit: Any, scene: Any
) -> None:
    url, key = keyed_address
    visit = await new_visit(f"/#key={key}", url=url)
    page = visit.page
    await page.get_by_role("combobox", name="Collection").select_option("handbook")
    assert page.url == f"{url}/"
    plain = (await new_visit()).page
    assert await page.evaluate("history.length") == await plain.evaluate("history.length"), "none has the key"
    await visit.ask(BACKUPS)
    await visit.answered()
    await page.reload()
    await visit.answered()
    await expect_no_key(page, key)
    assert key not in page.url


async def test_the_address_signs_a_page_in_that_asks_for_a_key(
    keyed_address: tuple[str, str], new_visit: Any, scene: Any
) -> None:
    """Opened in the same tab, where only what is behind the # changes."""
    url, key = keyed_address
    visit = await new_visit("/#key=<script>", url=url, meant=401)
    page = visit.page
    dialog = page.get_by_role("dialog", name="API key")
    await expect(dialog).to_be_visible()
    assert page.url == f"{url}/"
    await page.goto(f"{url}/#key={key}")
    await expect(dialog).to_be_hidden()
    await page.get_by_role("combobox", name="Collection").select_option("handbook")
    await expect(page.get_by_role("button", name="Account")).to_be_visible()
    await page.wait_for_load_state("networkidle")  # the service goes before the page does
    assert page.url == f"{url}/"


async def expect_no_key(page: Any, key: str) -> None:
    """The page has it nowhere: what signs the browser in is a cookie that scripts cannot read."""
    kept = await page.evaluate("JSON.stringify([localStorage, sessionStorage, document.cookie, location.href])")
    assert "rag_" not in kept
    assert await page.evaluate("document.cookie") == ""
    cookies = await page.context.cookies(page.url)
    assert any(cookie["httpOnly"] and cookie["sameSite"] == "Strict" for cookie in cookies)
    assert not [cookie for cookie in cookies if key in cookie["value"]]


async def fits(page: Any) -> bool:
    """Whether nothing is wider than the window."""
    fitting: bool = await page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
    return fitting
