"""Many files are added in the documents dialog: the state of each, refusals, and an upload that breaks off."""

from __future__ import annotations

import asyncio
import itertools
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from PIL import ImageStat
from playwright.async_api import Route, expect

from tests.rag_service.web.test_web_accessible import DEVICES, violations

pytestmark = [
    pytest.mark.asyncio(loop_scope="session"),
    pytest.mark.decoder_only("uploads are the same with every engine"),
]

JOB = re.compile(r"/v1/jobs/")
UPLOAD = re.compile(r"/documents$")
COUNT_FILES = """() => {
  const send = XMLHttpRequest.prototype.send;
  window.sent = [];
  XMLHttpRequest.prototype.send = function (form) {
    window.sent.push(form.getAll("files").length);
    return send.call(this, form);
  };
}"""
"""Keeps the number of files in each upload; not every browser shows bodies to who drives it."""

DRAG = """(type) => {
  const data = new DataTransfer();
  data.items.add(new File(["# Rule\\n\\nThere is none."], "rule.md"));
  const place = document.querySelector("dialog[open] .sheet-head") ?? document.querySelector("#question");
  place.dispatchEvent(new DragEvent(type, { dataTransfer: data, bubbles: true, cancelable: true }));
}"""
"""What a browser tells when a file is dragged over the page, or over its dialog."""


@pytest.fixture
def shelf(scene: Any) -> Iterator[str]:
    """A collection of its own, empty. Named before `new_visit`, it ends after the page."""
    scene.library.create("shelf").close()
    yield "shelf"
    scene.library.delete("shelf")


@pytest.fixture
def files(tmp_path: Path) -> list[Path]:
    """Twelve files, of which the third and the last cannot be read."""
    for number in range(1, 13):
        (tmp_path / f"rule-{number:02}.md").write_text(f"# Rule {number}\n\nThe gate has the number {number}.\n")
    for number in (3, 12):
        (tmp_path / f"rule-{number:02}.md").rename(tmp_path / f"rule-{number:02}.xyz")
    return sorted(tmp_path.iterdir())


async def opened(visit: Any, collection: str) -> Any:
    """The documents dialog."""
    await visit.page.get_by_role("combobox", name="Collection").select_option(collection)
    await visit.page.get_by_role("button", name="Documents").click()
    return visit.page.get_by_role("dialog", name="Documents")


def states(dialog: Any) -> Any:
    return dialog.locator(".upload-files .upload-state")


@pytest.mark.parametrize("device", ["light", "dark phone"])
async def test_each_file_of_an_upload_has_its_state(
    shelf: str, new_visit: Any, scene: Any, files: list[Path], device: str
) -> None:
    page = (visit := await new_visit(**DEVICES[device])).page
    dialog = await opened(visit, shelf)
    may_send, may_tell = asyncio.Event(), asyncio.Event()

    async def send_later(route: Route) -> None:
        if route.request.method == "POST":
            await may_send.wait()
        await route.continue_()

    async def tell_later(route: Route) -> None:
        await may_tell.wait()
        await route.continue_()

    await page.route(UPLOAD, send_later)
    await page.route(JOB, tell_later)
    await dialog.locator("#files").set_input_files(files)
    await expect(dialog.get_by_text("Adding 12 files…")).to_be_visible()
    await expect(states(dialog)).to_have_text(["sending"] * 10 + ["waiting"] * 2)
    may_send.set()
    await expect(states(dialog)).to_have_text(["reading"] * 10 + ["waiting"] * 2)
    assert await violations(page) == []
    may_tell.set()
    await expect(dialog.get_by_text("10 documents added. 2 files refused.")).to_be_visible()
    await expect(states(dialog)).to_have_text(["refused"] * 2 + ["added"] * 10)  # the refused ones come first
    names = dialog.locator(".upload-files .upload-name")
    await expect(names).to_have_text([name.name for name in sorted(files, key=lambda one: (one.suffix != ".xyz", one))])
    reasons = dialog.locator(".upload-files .upload-reason")
    await expect(reasons).to_have_count(2)
    await expect(reasons.first).to_contain_text(".xyz")
    assert await violations(page) == []
    listed = dialog.get_by_role("list", name="Documents in this collection").get_by_role("listitem")
    await expect(listed).to_have_count(10)


async def test_what_an_upload_that_broke_off_left_is_tried_again(
    shelf: str, new_visit: Any, scene: Any, files: list[Path]
) -> None:
    page = (visit := await new_visit(meant=503)).page
    dialog = await opened(visit, shelf)
    await page.evaluate(COUNT_FILES)
    requests = itertools.count(1)

    async def refuse_the_second(route: Route) -> None:
        if route.request.method != "POST":
            await route.continue_()
            return
        if next(requests) == 2:
            await route.fulfill(status=503, json={})
        else:
            await route.continue_()

    await page.route(UPLOAD, refuse_the_second)
    await dialog.locator("#files").set_input_files(files)
    await expect(dialog.get_by_text("9 documents added. 1 file refused.")).to_be_visible()
    await expect(states(dialog)).to_have_text(["refused"] + ["added"] * 9 + ["waiting"] * 2)
    await dialog.get_by_role("button", name="Try again").click()
    await expect(dialog.get_by_text("1 document added. 1 file refused.")).to_be_visible()
    assert await page.evaluate("window.sent") == [10, 2, 2]
    listed = dialog.get_by_role("list", name="Documents in this collection").get_by_role("listitem")
    await expect(listed).to_have_count(10)


async def test_a_job_that_failed_as_a_whole_refuses_all_its_files(
    shelf: str, new_visit: Any, scene: Any, files: list[Path]
) -> None:
    page = (visit := await new_visit()).page
    dialog = await opened(visit, shelf)

    async def failed(route: Route) -> None:
        failures = [{"name": shelf, "reason": "The embedding model is another one."}]
        await route.fulfill(json={"status": "failed", "done": 0, "total": 2, "failures": failures})

    await page.route(JOB, failed)
    await dialog.locator("#files").set_input_files(files[:2])
    await expect(dialog.get_by_text("Nothing was added. 2 files refused.")).to_be_visible()
    await expect(states(dialog)).to_have_text(["refused"] * 2)
    await expect(dialog.locator(".upload-reason")).to_have_text(["The embedding model is another one."] * 2)


async def test_the_page_shows_that_files_can_be_dropped(shelf: str, new_visit: Any, scene: Any) -> None:
    page = (visit := await new_visit()).page
    dialog = await opened(visit, shelf)
    sign = page.get_by_text("Drop the files to add them to “shelf”")
    for within in (dialog, None):
        await expect(sign).to_be_hidden()
        await page.evaluate(DRAG, "dragover")
        await expect(sign).to_be_visible()
        assert await violations(page) == []
        await page.evaluate(DRAG, "dragleave")
        await expect(sign).to_be_hidden()
        if within:
            await page.keyboard.press("Escape")
    await page.evaluate(DRAG, "dragover")
    await page.evaluate(DRAG, "drop")
    await expect(sign).to_be_hidden()
    await expect(dialog.get_by_text("1 document added.")).to_be_visible()


async def test_a_list_of_files_that_goes_on_has_a_shadow(
    shelf: str, new_visit: Any, scene: Any, files: list[Path]
) -> None:
    """It ended within an entry, and nothing showed that it scrolls."""
    visit = await new_visit()
    dialog = await opened(visit, shelf)
    await dialog.locator("#files").set_input_files(files)
    await expect(dialog.get_by_text("10 documents added. 2 files refused.")).to_be_visible()
    uploaded = dialog.locator(".upload-files")
    await visit.page.mouse.move(0, 0)

    async def bottom() -> float:
        """How light the last rows inside the list are."""
        box = await uploaded.bounding_box()
        strip = {"x": box["x"] + 2, "width": 8, "y": box["y"] + box["height"] - 6, "height": 4}
        return ImageStat.Stat(await visit.picture(strip)).mean[0]

    above = await bottom()
    await uploaded.evaluate("node => { node.scrollTop = node.scrollHeight; }")
    assert above < await bottom() - 5
