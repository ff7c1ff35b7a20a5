"""Many files are added in the documents dialog: the state of each, refusals, and an upload that breaks off."""

from __future__ import annotations

import asyncio
import itertools
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
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


async def opened(new_visit: Any, collection: str, **options: Any) -> tuple[Any, Any]:
    """The page and its documents dialog."""
    visit = await new_visit(**options)
    await visit.page.get_by_role("combobox", name="Collection").select_option(collection)
    await visit.page.get_by_role("button", name="Documents").click()
    return visit.page, visit.page.get_by_role("dialog", name="Documents")


def states(dialog: Any) -> Any:
    return dialog.locator(".upload-files .upload-state")


@pytest.mark.parametrize("device", ["light", "dark phone"])
async def test_each_file_of_an_upload_has_its_state(
    shelf: str, new_visit: Any, scene: Any, files: list[Path], device: str
) -> None:
    page, dialog = await opened(new_visit, shelf, **DEVICES[device])
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
    page, dialog = await opened(new_visit, shelf, meant=503)
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
    page, dialog = await opened(new_visit, shelf)

    async def failed(route: Route) -> None:
        failures = [{"name": shelf, "reason": "The embedding model is another one."}]
        await route.fulfill(json={"status": "failed", "done": 0, "total": 2, "failures": failures})

    await page.route(JOB, failed)
    await dialog.locator("#files").set_input_files(files[:2])
    await expect(dialog.get_by_text("Nothing was added. 2 files refused.")).to_be_visible()
    await expect(states(dialog)).to_have_text(["refused"] * 2)
    await expect(dialog.locator(".upload-reason")).to_have_text(["The embedding model is another one."] * 2)
