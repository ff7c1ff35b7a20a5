"""Texts of documents on the page: as their readers write them, with the marked words in their place."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import expect

import rag_service
from retriever.parsing.formats import SUPPORTED, load_file
from tests.rag_service.web.conftest import BACKUPS, FOLLOW_UP

browsed = pytest.mark.asyncio(loop_scope="session")
one_engine = pytest.mark.decoder_only("texts of documents do not depend on the engine")

SCRIPT = Path(rag_service.__file__).parent / "web" / "answer" / "source_text.js"
SHOWN = """async ([name, text, mark]) => {
  const { textOf } = await import("/web/answer/source_text.js");
  const node = textOf({ document_id: name }, text, "", mark && { from: mark[0], to: mark[1] });
  return { html: node.innerHTML, text: node.textContent,
    marked: [...node.querySelectorAll("mark")].map((one) => one.textContent).join("") };
}"""
PANEL = """async ([passages, mark]) => {
  const { Sources } = await import("/web/answer/sources.js");
  const whole = passages.map((one, at) => ({ title: "x", chunk_id: at, source_start: 0, source_end: 9, ...one }));
  new Sources().show(mark, whole, "c", null);
  const ends = (all) => [...document.querySelectorAll(all)].map((one) => one.getBoundingClientRect().right);
  return { panel: ends("#passages")[0], cards: ends(".passage, .passage-text, .passage .table"), marked: ends("mark") };
}"""
GATE = "The gate of the garden opens at seven, and * closes at *noon* on <b>Sundays</b>."
PAGE = (
    "<html><head><title>Garden</title></head><body><h1>Garden</h1><h2>The <em>gate</em></h2>"
    "<p>The gate of the garden opens at seven, and * closes at *noon* on &lt;b&gt;Sundays&lt;/b&gt;.</p>"
    "<ul><li>[in](javascript:alert(1))</li><li>out</li></ul>"
    "<table><tr><th>day</th><th>a|b</th></tr><tr><td>Mo</td><td>1|2</td></tr></table>"
    "<p>&lt;img src=x onerror=alert(1)&gt;</p><p>[x]: http://example.org/x</p><pre># code</pre></body></html>"
)


def test_every_format_has_its_way_to_be_shown() -> None:
    """The page knows the formats by their endings; what it does not know is shown as it is."""
    lists = re.findall(r"^const [A-Z]+ = \[([^]]*)\]", SCRIPT.read_text(encoding="utf-8"), re.MULTILINE)
    known = [f".{one}" for names in lists for one in re.findall(r'"(\w+)"', names)]
    assert len(known) == len(set(known))
    assert set(SUPPORTED) - set(known) == {".txt", ".text"}
    assert set(known) - set(SUPPORTED) == set()


async def shown(visit: Any, name: str, text: str, mark: tuple[int, int] | None = None) -> dict[str, str]:
    found: dict[str, str] = await visit.page.evaluate(SHOWN, [name, text, mark])
    return found


@browsed
@one_engine
async def test_an_html_page_is_shown_with_its_outline_and_its_words_stay(visit: Any, tmp_path: Path) -> None:
    (tmp_path / "garden.html").write_text(PAGE)
    text = load_file(tmp_path / "garden.html").text
    for name in ("garden.html", "garden.html-0123456789", "garden.docx"):
        found = await shown(visit, name, text)
        html = found["html"]
        assert html.startswith("<h3>Garden</h3><h4>The gate</h4><p>")
        assert GATE in found["text"]
        assert "<li><p>[in](javascript:alert(1))</p></li><li>" in html
        assert '<th scope="col">a|b</th>' in html
        assert "<td>1|2</td>" in html
        assert "<p>&lt;img src=x onerror=alert(1)&gt;</p><p>[x]: http://example.org/x</p>" in html
        assert re.search(r"<pre[^>]*><code># code</code></pre>", html)
        assert not re.search(r"<(img|b|em|a|script)[ >]", html)


@browsed
@one_engine
@pytest.mark.parametrize("ending", ["md", "html", "csv", "pdf", "txt"])
async def test_marked_words_are_those_of_their_place(visit: Any, ending: str) -> None:
    text = (
        "# 😀 Top\n\nOne *two* three.\n\n- four\n  five\n\n| a | b |\n| --- | --- |\n| c \\| d | six |\n\n## End\nseven"
    )
    for words in ("😀 Top", "three", "four", "six", "End", "seven"):
        start = text.index(words)
        assert (await shown(visit, f"x.{ending}", text, (start, start + len(words))))["marked"] == words
    whole = (await shown(visit, f"x.{ending}", text, (0, len(text))))["marked"]
    assert whole == (await shown(visit, f"x.{ending}", text))["text"].replace("Copy", ""), "and nothing else"


@browsed
@one_engine
async def test_a_pdf_has_headings_and_its_other_lines_stay(visit: Any) -> None:
    text = "# 1 Scope\nAll *staff* and <b>guests</b>.\n  1) indented\n\\# no heading\n#tag\n## Next\nEnd"
    found = await shown(visit, "policy.pdf", text)
    lines = "All *staff* and &lt;b&gt;guests&lt;/b&gt;.\n  1) indented\n# no heading\n#tag\n"
    assert found["html"] == f"<h3>1 Scope</h3>{lines}<h4>Next</h4>End"


@browsed
@one_engine
async def test_a_table_of_a_pdf_is_one_between_its_lines(visit: Any) -> None:
    table = "| Course | Price |\n| --- | --- |\n| *A* é | 30 euros |\n| B | 25 euros |"
    text = f"# Prices\n| is a bar\n\n{table}\n\nOthers pay more."
    start = text.index("25 euros")
    found = await shown(visit, "prices.pdf", text, (start, start + len("25 euros")))
    assert found["html"].startswith("<h3>Prices</h3>| is a bar\n\n")
    assert '<th scope="col">Price</th>' in found["html"]
    assert "<td>*A* é</td>" in found["html"]
    assert "<td><mark>25 euros</mark></td>" in found["html"]
    assert found["html"].endswith("Others pay more.")
    start = text.index("more")
    assert (await shown(visit, "prices.pdf", text, (start, start + 4)))["marked"] == "more"
    start = text.index("30 euros")
    part = (await shown(visit, "prices.pdf", text[start - 10 :], (10, 18)))[
        "html"
    ]  # a passage that begins in the table
    assert "<td><mark>30 euros</mark></td>" in part


@browsed
@one_engine
async def test_text_without_markup_stays_as_it_is(visit: Any) -> None:
    text = "# no heading\n\n* no list\n| a | b |\n| --- | --- |\n<b>no</b> *emphasis*"
    for name in ("notes.txt", "service.log", "main.py", "text-0123456789abcdef"):
        found = await shown(visit, name, text, (2, 12))
        assert found["text"] == text
        assert found["html"].startswith("# <mark>no heading</mark>\n\n* no list\n")


@browsed
@one_engine
async def test_a_part_of_a_table_is_one_without_its_header(visit: Any) -> None:
    text = "| Ada | Paris |\n| Bo \\| B | Oslo |"
    found = await shown(visit, "staff.csv", text, (2, 5))
    assert "<td><mark>Ada</mark></td><td>Paris</td>" in found["html"]
    assert "<td>Bo | B</td>" in found["html"]
    assert "<thead>" not in found["html"]
    whole = (await shown(visit, "staff.csv", f"| Name | City |\n| --- | --- |\n{text}"))["html"]
    assert '<thead><tr><th scope="col">Name</th>' in whole


@browsed
@one_engine
@pytest.mark.parametrize("ending", ["md", "csv", "pdf"])
async def test_the_rest_of_a_table_has_the_names_of_its_columns(visit: Any, ending: str) -> None:
    text = "| Rye \\| red | 5 euros |\n| Wheat | 4 euros |"
    start = text.index("4 euros")
    script = SHOWN.replace("document_id: name", "document_id: name[0], heading: name[1], text: name[2]")
    for heading, names in (
        ("Prices > 😀 Type | Price", ["😀 Type", "Price"]),
        ("Prices > Type | 1 kg | 5 kg", []),  # cut, or with columns that have no name
        ("Prices", []),
    ):
        passage = [f"x.{ending}", heading, text]
        found = await visit.page.evaluate(script, [passage, text, [start, start + 7]])
        assert re.findall('<th scope="col">(.*?)</th>', found["html"]) == names
        assert "<td>Rye | red</td>" in found["html"]
        assert found["marked"] == "4 euros"
        assert "<td><mark>4 euros</mark></td>" in found["html"]
        whole = await visit.page.evaluate(script, [passage, f"{text}\n| Oats | 2 euros |", None])
        assert "<th" not in whole["html"], "of the document, not of its passage"


@browsed
@one_engine
@pytest.mark.parametrize("viewport", [{"width": 1280, "height": 800}, {"width": 390, "height": 844}])
async def test_a_wide_table_scrolls_in_its_card(new_visit: Any, scene: Any, viewport: dict[str, int]) -> None:
    """All cards became as wide as the table, and their words were cut at the edge of the panel."""
    row = "| Wholemeal | 3 euros | 14 euros | an-unbreakable-price-for-wholesale-customers | none |\n"
    table = f"{row}| --- | --- | --- | --- | --- |\n{row * 2}"
    page = (await new_visit(viewport=viewport)).page
    for ending in ("pdf", "md", "csv"):
        passages = [
            {"document_id": f"{name}.{ending}", "text": text} for name, text in (("a", table), ("b", "x " * 400))
        ]
        mark = {"passage": 0, "kind": "passage", "from": table.rindex("none"), "to": table.rindex("none") + 4}
        found = await page.evaluate(PANEL, [passages, mark])
        assert len(found["cards"]) == 5
        assert max(found["cards"]) <= found["panel"]
        assert found["marked"][0] <= found["panel"], "the marked words are in view"


@browsed
@one_engine
async def test_lines_of_a_paragraph_of_markdown_are_joined(visit: Any) -> None:
    """They were ragged: broken where the file is, and where the window is. What they hold stays, so marks do, too."""
    text = "One two\nthree\nfour.\n\n- five\n  six\n\nseven  \neight\n\n```\na\nb\n```\n\n<b>\nc\n</b>\n"
    start = text.index("two\nthree")
    for ending, lines in (("md", [1, 1, 2, 2, 3]), ("html", [3, 2, 2, 2, 3]), ("txt", [])):
        script = SHOWN.replace("return {", 'document.getElementById("turns").replaceChildren(node); return {')
        found = await visit.page.evaluate(script, [f"x.{ending}", text, [start, start + 9]])
        assert found["marked"] == "two\nthree"
        shown = await visit.page.locator("#turns :is(p, code, .passage-text:not(.markdown))").all_inner_texts()
        assert [len(one.splitlines()) for one in shown] == lines if lines else shown == [text]


@browsed
@one_engine
async def test_a_card_of_a_web_page_has_no_marks_of_its_reader(visit: Any, scene: Any, tmp_path: Path) -> None:
    page = visit.page
    (tmp_path / "garden.html").write_text(PAGE)
    await page.get_by_role("button", name="Documents").click()
    dialog = page.get_by_role("dialog", name="Documents")
    garden = f"garden-{visit.browser}"
    await dialog.get_by_label("New collection").fill(garden)
    await dialog.get_by_role("button", name="Create").click()
    await expect(dialog.get_by_text(f"In the collection “{garden}”")).to_be_visible()
    await dialog.locator("#files").set_input_files([tmp_path / "garden.html"])
    await dialog.get_by_role("button", name="Read Garden").click()
    await expect(page.locator("#reading .passage-text h4")).to_have_text("The gate")
    await page.keyboard.press("Escape")
    await page.keyboard.press("Escape")
    scene.stage.answers["When does the gate open?"] = GATE
    await visit.ask("When does the gate open?")
    turn = await visit.answered()
    run = turn.locator(".run.copied").first
    await run.hover()
    active = page.locator("#passages .active .passage-text")
    await expect(active.locator("h4")).to_have_text("The gate")
    await expect(active.locator("mark").first).to_contain_text("The gate of the garden opens at seven")
    await expect(active).not_to_contain_text("##")


@browsed
@one_engine
async def test_a_table_in_a_long_document_keeps_its_height(visit: Any) -> None:
    """It was a line: a box that scrolls can have no height, and the document had more rows than room."""
    text = "| a | b |\n| --- | --- |\n| c | d |\n\n" + "More words.\n\n" * 100
    heights = await visit.page.evaluate(
        """async (text) => {
          const { textOf } = await import("/web/answer/source_text.js");
          document.getElementById("turns").append(textOf({ document_id: "x.html" }, text, "whole"));
          return [".table", ".table table"].map((one) => document.querySelector(one).offsetHeight);
        }""",
        text,
    )
    assert heights[0] >= heights[1] > 20


@browsed
@one_engine
async def test_the_panel_begins_at_the_first_source_of_a_new_answer(visit: Any) -> None:
    """It kept the place to which the last answer's passages had been scrolled."""
    panel = visit.page.locator("#passages")

    async def above(card: int) -> float:
        return float(await panel.evaluate("(list, n) => list.children[n].offsetTop - list.scrollTop", card))

    for question in (BACKUPS, FOLLOW_UP):
        await visit.ask(question)
        turn = await visit.answered()
        first = int(await turn.locator(".legend-source .chip").first.inner_text()) - 1
        assert 0 <= await above(first) <= 20
        await panel.evaluate("list => { list.scrollTop = list.scrollHeight; }")
        assert await above(0) < -50
