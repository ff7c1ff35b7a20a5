"""A table that is wider than its place: one sees at which side more of it is."""

from __future__ import annotations

import io
from typing import Any

import pytest
from PIL import Image
from playwright.async_api import expect

pytestmark = [
    pytest.mark.asyncio(loop_scope="session"),
    pytest.mark.decoder_only("the page is the same with every engine"),
]

COLUMNS = 9
PANEL = """async (columns) => {
  const { Sources } = await import("/web/answer/sources.js");
  const row = (cell) => `| ${Array(columns).fill(cell).join(" | ")} |\\n`;
  const text = row("Ticketprice") + row("---") + row("").repeat(6);
  new Sources().show({ passage: 0, kind: "passage" }, [{ document_id: "prices.md", chunk_id: "a", title: "Prices", text,
    source_start: 0, source_end: text.length }], "handbook", document.body);
}"""
EDGE = 3
"""Pixels from a side of the table to what is looked at, beyond its border."""


async def darkened(table: Any) -> list[bool]:
    """Whether its left and its right side are darker than the middle, in a row without words."""
    shot = Image.open(io.BytesIO(await table.screenshot())).convert("L")
    row = shot.height * 2 // 3
    at = [EDGE, shot.width - 1 - EDGE, shot.width // 2]
    left, right, middle = (int(shot.getpixel((x, row))) for x in at)  # type: ignore[arg-type]
    return [middle - side > 4 for side in (left, right)]


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("viewport", [{"width": 1280, "height": 800}, {"width": 390, "height": 844}])
async def test_a_shadow_shows_where_a_table_goes_on(new_visit: Any, scheme: str, viewport: dict[str, int]) -> None:
    """It was cut off, and no scrollbar showed before one scrolled."""
    visit = await new_visit(color_scheme=scheme, viewport=viewport)
    await visit.page.evaluate(PANEL, COLUMNS)
    table = visit.page.locator("#passages .table")
    await expect(table).to_be_visible()
    assert await table.evaluate("node => node.scrollWidth > node.clientWidth")
    assert await darkened(table) == [False, True]
    await table.evaluate("node => { node.scrollLeft = 60; }")
    assert await darkened(table) == [True, True]
    await table.evaluate("node => { node.scrollLeft = node.scrollWidth; }")
    assert await darkened(table) == [True, False]
    await visit.page.evaluate(PANEL, 2)
    assert await table.evaluate("node => node.scrollWidth === node.clientWidth")
    assert await darkened(table) == [False, False]
    visit.complaints.clear()  # Playwright styles the page for its picture, of which Firefox complains
