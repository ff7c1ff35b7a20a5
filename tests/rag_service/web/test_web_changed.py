"""A document changes in the middle of a conversation: the page marks what rests on its old text."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import pytest_asyncio
from playwright.async_api import expect

from retriever import SourceDocument
from tests.rag_service.web.conftest import BACKUPS, DOCUMENTS, FOLLOW_UP

pytestmark = [
    pytest.mark.asyncio(loop_scope="session"),
    pytest.mark.decoder_only("what the page marks does not depend on the engine"),
]


POOL = "# Pool\n\nThe pool opens at seven in the morning on weekdays.\n"
POOL_QUESTION = "When does the pool open?"


@pytest.fixture
def retention(scene: Any) -> Iterator[Any]:
    """Replaces a sentence of the data retention policy."""
    (path,) = [path for path in DOCUMENTS if "kept for 35 days" in path.read_text(encoding="utf-8")]
    kept = path.read_text(encoding="utf-8")

    def put(text: str) -> None:
        changed = SourceDocument(name=path.name, document_id=path.name, text=text)
        scene.library.collection("handbook").ingest([changed])

    yield lambda old, new: put(kept.replace(old, new))
    put(kept)


async def test_an_answer_whose_source_has_changed_says_so(visit: Any, retention: Any) -> None:
    await visit.ask(BACKUPS)
    await visit.answered()
    outdated = visit.turn(0).get_by_text("A source of this answer was changed or deleted since.")
    await expect(outdated).to_have_count(0)
    retention("kept for 35 days", "kept for 70 days")
    await visit.ask(FOLLOW_UP)
    second = await visit.answered()
    await expect(second.get_by_text("since documents have changed: 1 earlier answer.")).to_be_visible()
    await expect(outdated).to_be_visible()

    await visit.page.reload()
    await visit.answered()
    await expect(outdated).to_be_visible()
    await visit.turn(0).get_by_role("button", name="passages").click()
    await expect(visit.page.get_by_text("changed or deleted since").first).to_be_visible()


@pytest_asyncio.fixture(loop_scope="session")
async def pool(new_visit: Any, scene: Any) -> AsyncIterator[Any]:
    """A visit with an answer from a document that was added as `pool.md`."""
    scene.stage.answers[POOL_QUESTION] = "The pool opens at seven in the morning on weekdays."
    visit = await new_visit()
    async with httpx.AsyncClient(base_url=visit.url) as client:
        await client.post("/v1/collections", json={"name": "pool"})
        sent = {"files": ("pool.md", POOL.encode())}
        job = (await client.post("/v1/collections/pool/documents", files=sent)).json()["job_id"]
        while (await client.get(f"/v1/jobs/{job}")).json()["status"] in ("queued", "running"):
            await asyncio.sleep(0.05)
        await visit.page.reload()
        await visit.page.get_by_role("combobox", name="Collection").select_option("pool")
        await visit.ask(POOL_QUESTION)
        await visit.answered()
        yield visit
        await client.delete("/v1/collections/pool")


@pytest.mark.parametrize("way", ["replace", "remove", "add"])
async def test_a_change_on_the_page_marks_the_answers_on_it_at_once(pool: Any, tmp_path: Path, way: str) -> None:
    """They stayed as they were until a reload."""
    page = pool.page
    outdated = pool.turn().get_by_text("A source of this answer was changed or deleted since.")
    flag = page.locator("#passages").get_by_text("changed or deleted since")
    for shown in (outdated, flag):
        await expect(shown).to_have_count(0)
    await page.get_by_role("button", name="Documents", exact=True).click()
    dialog = page.get_by_role("dialog", name="Documents")
    changed = tmp_path / "pool.md"
    changed.write_text("# Pool\n\nThe pool is closed.\n")
    if way == "replace":
        async with page.expect_file_chooser() as choosing:
            await dialog.get_by_role("button", name="Replace Pool").click()
        await (await choosing.value).set_files(changed)
        await expect(dialog.get_by_text("Pool was replaced.")).to_be_visible()
    elif way == "remove":
        for _ in range(2):
            await dialog.get_by_role("button", name="Remove Pool").click()
        await expect(dialog.get_by_text("Pool was removed.")).to_be_visible()
    else:
        await dialog.locator("#files").set_input_files(changed)
        await expect(dialog.get_by_text("1 document added.")).to_be_visible()
    await page.keyboard.press("Escape")
    await expect(outdated).to_be_visible()
    await expect(flag).to_be_visible()


async def test_the_whole_text_of_a_deleted_document_is_said_to_be_gone(pool: Any) -> None:
    """The service's words for programs stood there: "Collection 'pool' has no document 'pool.md-5204ead490'; …"."""
    pool.meant = 404
    async with httpx.AsyncClient(base_url=pool.url) as client:
        (listed,) = (await client.get("/v1/collections/pool/documents")).json()["documents"]
        await client.delete(f"/v1/collections/pool/documents/{listed['document_id']}")
    await pool.turn(0).get_by_role("button", name="passage").last.click()
    await pool.page.get_by_role("button", name="Show the whole document").first.click()
    await expect(pool.page.get_by_text("The document is no longer there.")).to_be_visible()


async def test_a_saved_conversation_names_files_as_they_are_called_by_now(pool: Any, tmp_path: Path) -> None:
    """It named documents by their ids: `pool.md-5204ead490`, where pool-v2.md was in its place."""
    page = pool.page

    async def saved() -> str:
        async with page.expect_download() as waiting:
            await page.get_by_role("button", name="Export").click()
        download = await waiting.value
        text = Path(await download.path()).read_text(encoding="utf-8")
        await download.delete()  # Firefox would number the next file of this name
        return text.splitlines()[-1]

    reads: list[str] = []
    page.on("request", lambda asked: reads.append(asked.url) if "/documents/pool.md" in asked.url else None)
    await pool.ask(POOL_QUESTION)
    await pool.answered(1)
    assert await saved() == "* [1] Pool · pool.md"
    assert len(reads) == 1  # for both answers
    (tmp_path / "pool-v2.md").write_text(POOL + "\nIt closes at nine.\n")
    await page.get_by_role("button", name="Documents", exact=True).click()
    async with page.expect_file_chooser() as choosing:
        await page.get_by_role("button", name="Replace Pool").click()
    await (await choosing.value).set_files(tmp_path / "pool-v2.md")
    await expect(page.get_by_text("Pool was replaced.").first).to_be_visible()
    await page.keyboard.press("Escape")
    assert await saved() in {"* [1] Pool · pool-v2.md", "* [1] Pool · pool-v2.md · changed or deleted since"}
    async with httpx.AsyncClient(base_url=pool.url) as client:
        (listed,) = (await client.get("/v1/collections/pool/documents")).json()["documents"]
        await client.delete(f"/v1/collections/pool/documents/{listed['document_id']}")
    pool.meant = 404
    assert (await saved()).startswith("* [1] Pool · pool.md")


async def test_an_id_is_named_where_title_and_file_tell_no_document(visit: Any) -> None:
    script = """async (passages) => {
      const { withSources } = await import("/web/answer/export.js");
      const runs = passages.map((one, passage) => (
        { start: 2 * passage, end: 2 * passage + 2, text: "a ", mark: { cited: "copied", passage } }));
      const names = new Map(passages.map(({ document_id }) => [`\\n${document_id}`, "Menu"]));
      return withSources(runs, passages, names).split("\\n").slice(-passages.length);
    }"""
    menus = [{"title": "Menu", "document_id": one, "chunk_id": one} for one in ("monday", "tuesday")]
    assert await visit.page.evaluate(script, menus) == ["* [1] Menu · monday", "* [2] Menu · tuesday"]
    assert await visit.page.evaluate(script, menus[:1]) == ["* [1] Menu"]
