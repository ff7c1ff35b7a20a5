"""Collections and their documents on the page: read, filter, replace, download and delete; questions to begin with."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import httpx
import pytest
import pytest_asyncio
from fpdf import FPDF
from playwright.async_api import expect

from tests.rag_service.web.conftest import BACKUPS, FOLLOW_UP

pytestmark = [
    pytest.mark.asyncio(loop_scope="session"),
    pytest.mark.decoder_only("documents and conversations do not depend on the engine"),
]

REST = ", digits, - and _ only, and begins with a letter or a digit."


@pytest_asyncio.fixture(loop_scope="session")
async def shelf(new_visit: Any, scene: Any, tmp_path: Path) -> AsyncIterator[Any]:
    """The documents dialog with eight documents in a collection of their own."""
    visit = await new_visit()
    page = visit.page
    await page.get_by_role("button", name="Documents", exact=True).click()
    dialog = page.get_by_role("dialog", name="Documents")
    await dialog.get_by_label("New collection").fill("shelf")
    await dialog.get_by_role("button", name="Create").click()
    await expect(dialog.get_by_text("In the collection “shelf”")).to_be_visible()
    for number in range(8):
        (tmp_path / f"rule-{number}.md").write_text(f"# Rule {number}\n\nRule {number} holds on day {number}.\n")
    await dialog.locator("#files").set_input_files(sorted(tmp_path.glob("rule-*.md")))
    await expect(dialog.get_by_text("8 documents added.")).to_be_visible()
    visit.dialog = dialog
    yield visit
    async with httpx.AsyncClient(base_url=visit.url) as client:
        await client.delete("/v1/collections/shelf")


async def test_documents_are_filtered_read_and_replaced(shelf: Any, tmp_path: Path) -> None:
    dialog, page = shelf.dialog, shelf.page
    items = dialog.locator(".document-list li:not(.hint)")
    await expect(items).to_have_count(8)
    await dialog.get_by_label("Filter the documents").fill("rule 5")
    await expect(items).to_have_count(1)
    await dialog.get_by_label("Filter the documents").fill("zebra")
    await expect(dialog.get_by_text("No document has these words in its title or name.")).to_be_visible()
    await dialog.get_by_label("Filter the documents").fill("RULE-5.md")
    await dialog.get_by_role("button", name="Read Rule 5").click()
    reading = page.get_by_role("dialog", name="Document", exact=True)
    await expect(reading.get_by_text("Rule 5 holds on day 5.")).to_be_visible()
    await expect(reading.locator(".reading .markdown h3")).to_have_text("Rule 5")
    await page.keyboard.press("Escape")

    (tmp_path / "changed.md").write_text("# Rule 5\n\nRule 5 holds no more.\n")
    async with page.expect_file_chooser() as choosing:
        await dialog.get_by_role("button", name="Replace Rule 5").click()
    await (await choosing.value).set_files(tmp_path / "changed.md")
    await expect(page.locator("#announce")).to_have_text("Rule 5 was replaced.")
    await expect(dialog.get_by_text("Rule 5 was replaced.")).to_be_visible()
    await expect(
        dialog.get_by_text("No document has these words")
    ).to_be_visible()  # the file's name is another one now
    await dialog.get_by_label("Filter the documents").fill("rule 5")
    await dialog.get_by_role("button", name="Read Rule 5").click()
    await expect(reading.get_by_text("Rule 5 holds no more.")).to_be_visible()
    async with httpx.AsyncClient(base_url=shelf.url) as client:
        listed = (await client.get("/v1/collections/shelf/documents")).json()["documents"]
    assert len(listed) == 8, "it took the place of the old one"


async def test_a_file_that_cannot_be_read_replaces_nothing(shelf: Any, tmp_path: Path) -> None:
    (tmp_path / "broken.pdf").write_bytes(b"no pdf")
    async with shelf.page.expect_file_chooser() as choosing:
        await shelf.dialog.get_by_role("button", name="Replace Rule 2").click()
    await (await choosing.value).set_files(tmp_path / "broken.pdf")
    await expect(shelf.dialog.get_by_text("Rule 2 was not replaced")).to_be_visible()
    await shelf.dialog.get_by_role("button", name="Read Rule 2").click()
    await expect(shelf.page.get_by_text("Rule 2 holds on day 2.")).to_be_visible()


async def test_a_collection_is_renamed_and_its_conversation_goes_on(shelf: Any, scene: Any) -> None:
    dialog, page = shelf.dialog, shelf.page
    await page.keyboard.press("Escape")
    scene.stage.answers["When does rule 5 hold?"] = "Rule 5 holds on day 5."
    await shelf.ask("When does rule 5 hold?")
    await shelf.answered()
    await page.get_by_role("button", name="Documents", exact=True).click()
    rename = dialog.get_by_role("button", name="Rename this collection")
    await rename.click()
    name = dialog.get_by_label("New name")
    await expect(name).to_be_focused()
    await expect(name).to_have_value("shelf")
    await dialog.get_by_role("button", name="Cancel").click()
    await expect(rename).to_be_focused()
    await expect(dialog.get_by_role("button", name="Delete this collection")).to_be_visible()

    await rename.click()
    await name.fill("handbook")
    shelf.meant = 409
    await page.keyboard.press("Enter")
    await expect(dialog.get_by_role("alert")).to_contain_text("exists already")
    await expect(name).to_have_value("handbook")
    async with httpx.AsyncClient(base_url=shelf.url) as client:
        await name.fill("rules")
        await dialog.get_by_role("button", name="Rename", exact=True).click()
        await expect(page.locator("#announce")).to_have_text("The collection shelf is called rules now.")
        await expect(dialog.get_by_text("In the collection “rules”")).to_be_visible()
        await expect(rename).to_be_focused()
        await expect(dialog.get_by_role("alert")).to_have_count(0)
        await expect(dialog.locator(".document-list li:not(.hint)")).to_have_count(8)
        await page.keyboard.press("Escape")
        assert await page.locator("#collection").input_value() == "rules"
        await expect(page.locator("#collection option[value=shelf]")).to_have_count(0)
        turn = await shelf.answered(0)
        await turn.locator(".run.copied").first.click()
        await page.locator("#passages .active").get_by_role("button", name="Show the whole document").click()
        await expect(page.locator("#passages .active .whole mark").first).to_be_visible()
        await shelf.ask("When does rule 5 hold?")
        await shelf.answered(1)
        assert (await client.delete("/v1/collections/rules")).status_code == 204


async def test_a_collection_is_deleted_on_the_second_click(shelf: Any) -> None:
    await shelf.dialog.get_by_role("button", name="Delete this collection").click()
    async with httpx.AsyncClient(base_url=shelf.url) as client:
        assert (await client.get("/v1/collections/shelf")).status_code == 200
        await shelf.dialog.get_by_role("button", name="Delete “shelf” with 8 documents for good?").click()
        await expect(shelf.page.locator("#announce")).to_have_text("The collection shelf was deleted.")
        assert (await client.get("/v1/collections/shelf")).status_code == 404
    await expect(shelf.page.locator("#collection option[value=shelf]")).to_have_count(0)


async def test_a_collection_is_created_renamed_and_deleted_above_its_documents(shelf: Any) -> None:
    dialog = shelf.dialog
    await expect(dialog.locator(".document-list li").first).to_be_visible()
    first = await dialog.locator(".document-list li").first.bounding_box()
    for one in ("Create", "Rename this collection", "Delete this collection"):
        box = await dialog.get_by_role("button", name=one).bounding_box()
        assert box["y"] + box["height"] < first["y"]


async def test_the_page_says_which_names_a_collection_may_have(shelf: Any) -> None:
    """A browser's own bubble said it, half outside of the dialog."""
    dialog, told = shelf.dialog, shelf.dialog.get_by_text("A name has letters from A to Z")
    await dialog.get_by_role("button", name="Rename this collection").click()
    for label, button in (("New collection", "Create"), ("New name", "Rename")):
        field, save = dialog.get_by_label(label), dialog.get_by_role("button", name=button, exact=True)
        for name in ("Käse", "two words", "-dash", ""):
            await field.fill(name)
            await expect(told.filter(visible=True)).to_have_count(0)
            await save.click()
            await expect(told.filter(visible=True)).to_have_count(1)
            await expect(field).to_be_focused()
            await expect(field).to_have_attribute("aria-invalid", "true")
        await expect(field).to_have_accessible_description("A name has letters from A to Z" + REST)
        await field.fill("shelf-2")
        await expect(told.filter(visible=True)).to_have_count(0)


async def test_where_no_files_are_kept_none_is_offered(visit: Any) -> None:
    await visit.page.get_by_role("button", name="Documents", exact=True).click()
    await visit.page.get_by_role("button", name="Read Travel policy").click()
    await expect(visit.page.get_by_role("region", name="Text of the document")).to_contain_text("travel")
    await expect(visit.page.get_by_role("button", name="Download the file")).to_have_count(0)


async def test_a_file_that_is_not_kept_says_so(
    new_visit: Any, scene: Any, serve: Callable[..., AbstractContextManager[str]]
) -> None:
    with serve(scene, keep_originals=True) as url:
        visit = await new_visit(url=url)
        await visit.page.get_by_role("combobox", name="Collection").select_option("handbook")
        await visit.page.get_by_role("button", name="Documents", exact=True).click()
        await visit.page.get_by_role("button", name="Read Travel policy").click()
        visit.meant = 404
        async with visit.page.expect_response(lambda answer: answer.status == 404):
            await visit.page.get_by_role("button", name="Download the file").click()
        await expect(visit.page.get_by_text("The file of this document is not kept")).to_be_visible()


async def test_a_pdf_is_kept_and_opens_at_its_page(
    new_visit: Any,
    scene: Any,
    serve: Callable[..., AbstractContextManager[str]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pdf = FPDF()
    for text in ("Nothing is said here.", "The harbour opens at noon on Sundays."):
        pdf.add_page()
        pdf.set_font("helvetica", size=14)
        pdf.cell(text=text)
    (tmp_path / "harbour.pdf").write_bytes(bytes(pdf.output()))
    monkeypatch.setattr(scene.library, "_keep_originals", True)
    with serve(scene, keep_originals=True) as url:
        visit = await new_visit(url=url)
        page = visit.page
        async with httpx.AsyncClient(base_url=url) as client:
            await client.post("/v1/collections", json={"name": "harbour"})
        await page.reload()
        await page.get_by_role("combobox", name="Collection").select_option("harbour")
        await page.get_by_role("button", name="Documents", exact=True).click()
        dialog = page.get_by_role("dialog", name="Documents")
        await dialog.locator("#files").set_input_files(tmp_path / "harbour.pdf")
        await expect(dialog.get_by_text("1 document added.")).to_be_visible()
        await dialog.locator(".document-title").click()
        async with page.expect_download() as loading:
            await page.get_by_role("button", name="Download the file").click()
        download = await loading.value
        assert download.suggested_filename == "harbour.pdf"
        assert Path(await download.path()).read_bytes() == (tmp_path / "harbour.pdf").read_bytes()
        await page.keyboard.press("Escape")
        await page.keyboard.press("Escape")
        scene.stage.answers["When does the harbour open?"] = "The harbour opens at noon on Sundays."
        await visit.ask("When does the harbour open?")
        await visit.answered()
        await page.evaluate(
            """() => {
                const create = URL.createObjectURL;
                URL.createObjectURL = (blob) => { window.shown = blob; return create.call(URL, blob); };
                window.opened = new Promise((resolve) => { window.open = (url) => { resolve(url); return null; }; });
            }"""
        )
        await page.get_by_role("button", name="Open the PDF at page 2").click()
        assert (await page.evaluate("window.opened")).endswith("#page=2")
        assert await page.evaluate("window.shown.slice(0, 5).text()") == "%PDF-"
        async with httpx.AsyncClient(base_url=url) as client:
            await client.delete("/v1/collections/harbour")


async def test_the_documents_offer_questions_to_begin_with(visit: Any, scene: Any) -> None:
    starters = visit.page.locator("#starters button")
    await expect(starters).to_have_count(3)
    asked = await starters.first.inner_text()
    assert asked.startswith("What does “Data retention policy” say about ")
    scene.stage.answers[asked] = scene.stage.answers[BACKUPS]
    await starters.first.click()
    turn = await visit.answered()
    await expect(turn.locator("h2")).to_have_text(asked)
    await expect(visit.page.locator("#welcome")).to_be_hidden()


async def test_neither_columns_nor_two_sections_are_asked_about(new_visit: Any, scene: Any) -> None:
    rows = "".join(f"2026-07-{day:02},Concert {day},Field {day},{day + 4}\n" for day in range(1, 29)) * 8
    sections = "# Campsite\n\n## Laundry\n\nThe laundry opens at 8.\n\n## Quiet hours\n\nQuiet begins at 22."
    files = {"events.csv": f"date,event,place,price_eur\n{rows}", "site.md": sections}
    visit = await new_visit()
    async with httpx.AsyncClient(base_url=visit.url) as client:
        await client.post("/v1/collections", json={"name": "camp"})
        sent = [("files", (name, text.encode())) for name, text in files.items()]
        job = (await client.post("/v1/collections/camp/documents", files=sent)).json()["job_id"]
        while (await client.get(f"/v1/jobs/{job}")).json()["status"] in ("queued", "running"):
            await asyncio.sleep(0.05)
        found = (await client.post("/v1/collections/camp/search", json={"question": "events", "top_k": 12})).json()
        assert "date | event | place | price_eur" in [one["heading"] for one in found["passages"]]
        await visit.page.reload()
        await visit.page.get_by_role("combobox", name="Collection").select_option("camp")
        starters = visit.page.locator("#starters button")
        await expect(starters).to_have_text(["What does “Campsite” say about Laundry?"])
        script = "async (passage) => (await import('/web/answer/provenance.js')).placeOf(passage, [])"
        table = {"title": "events", "heading": "Prices > Name | Age", "page": 2}
        assert await visit.page.evaluate(script, table) == "Prices · page 2"
        for date, shown in (("2013-12-23", "Dec 23, 2013"), ("2013-12", "December 2013"), ("2013", "2013")):
            assert await visit.page.evaluate(script, {"title": "events", "date": date}) == shown
        await client.delete("/v1/collections/camp")


async def test_questions_to_begin_with_are_the_best_of_all_kinds_of_documents(new_visit: Any) -> None:
    files = {f"{name}.md": f"# {name}\n\nA text about {name}." for name in ("Alder", "Birch", "Cedar")}
    files["Beech.md"] = "# Beech\n\n## Overview\n\nBeech in short.\n\n## Fees\n\nBeech costs 5 euros."
    files["Zoo.html"] = "<html><body><h1>Zoo</h1><h2>When does the zoo open?</h2><p>At 8.</p></body></html>"
    visit = await new_visit()
    async with httpx.AsyncClient(base_url=visit.url) as client:
        await client.post("/v1/collections", json={"name": "kinds"})
        sent = [("files", (name, text.encode())) for name, text in files.items()]
        job = (await client.post("/v1/collections/kinds/documents", files=sent)).json()["job_id"]
        while (await client.get(f"/v1/jobs/{job}")).json()["status"] in ("queued", "running"):
            await asyncio.sleep(0.05)
        await visit.page.reload()
        await visit.page.get_by_role("combobox", name="Collection").select_option("kinds")
        best = ["When does the zoo open?", "What does “Beech” say about Fees?"]
        await expect(visit.page.locator("#starters button")).to_have_text(best)
        await client.delete("/v1/collections/kinds")


async def test_conversations_are_found_by_their_question(visit: Any) -> None:
    for question in (BACKUPS, FOLLOW_UP):
        await visit.ask(question)
        await visit.answered()
        await visit.page.get_by_role("button", name="New", exact=True).click()
    await visit.page.get_by_role("button", name="History").click()
    listed = visit.page.locator("#history .session")
    await visit.page.get_by_label("Filter the conversations").fill("LEGAL hold")
    await expect(listed.first).to_contain_text(FOLLOW_UP)
    assert all("legal hold" in text.lower() for text in await listed.all_inner_texts())
    await visit.page.get_by_label("Filter the conversations").fill("zebra")
    await expect(visit.page.get_by_text("No conversation begins with such a question.")).to_be_visible()
    await visit.page.get_by_label("Filter the conversations").fill("lift a legal")
    await listed.first.click()
    await expect(visit.page.locator(".turn h2")).to_have_text(FOLLOW_UP)
