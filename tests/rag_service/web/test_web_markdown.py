"""Answers and documents as Markdown: its words keep their sources, and nothing in it runs, loads or leads astray."""

from __future__ import annotations

from typing import Any

import pytest
from playwright.async_api import expect

from tests.rag_service.web.conftest import BACKUPS

pytestmark = pytest.mark.asyncio(loop_scope="session")

QUOTED = "Backups are encrypted and kept for 35 days."
RICH = (
    "# Backups\n\n"
    f"The policy says: **{QUOTED}**\n\n"
    "| what | days |\n|---|--:|\n| backups | **35** |\n| a \\| b | 90 |\n\n"
    "1. first\n2. second with `code` &amp; more\n\n"
    "```python\nkept = 35  # <b>days</b>\n```\n\n"
    "<img src=x onerror=alert(1)> [bad](javascript:alert(1)) [good](https://example.org/a) ![out](http://example.org/x.png)\n"
)

PLACES = """async (texts) => {
  const { rendered } = await import("/web/answer/markdown.js");
  return texts.map((text) => {
    const found = [];
    rendered(text, (value, at) => { found.push([value, at]); return [value]; });
    return found;
  });
}"""


async def test_every_word_knows_its_place_in_the_text(visit: Any) -> None:
    """A character on the page is the one at its place, but for escapes, entities and line ends of code."""
    texts = [
        "a **b** `c d` *e* ~~f~~ g",
        "> quote\n> goes on\n\n- x\n  y\n\n  z\n1. one",
        "a \\* b &amp; c &lt; &copy; \\\\ e &nosuch; f",
        "| a | b \\| c |\n|---|:-:|\n| 1 | **2** |",
        "```py\nx = 1\n  y & z\n```\n\n    indented",
        "# 𝒳 ü 😀\n\n[a](https://b.c) ![d](e) <i>f</i>",
        "one  \ntwo\nthree ``q ` r``",
    ]
    compared = 0
    for text, parts in zip(texts, await visit.page.evaluate(PLACES, texts), strict=True):
        points = list(text)
        for value, at in parts:
            assert len(at) == len(value)
            assert at == sorted(at)
            for sign, place in zip(value, at, strict=True):
                assert points[place] == sign or points[place] in "&\\", (text, value, sign)
                compared += points[place] == sign
    assert compared > 120


async def test_markdown_is_shown_as_such_and_copied_words_keep_their_source(visit: Any, scene: Any) -> None:
    scene.stage.answers[BACKUPS] = RICH
    await visit.ask(BACKUPS)
    turn = await visit.answered()
    text = turn.locator(".answer-text")
    await expect(text.locator("h3")).to_contain_text("Backups")
    await expect(text.locator("td").nth(1)).to_contain_text("35")
    await expect(text.locator("td").nth(2)).to_have_text("a | b")
    await expect(text.locator("li").nth(1)).to_have_text("second with code & more")
    await expect(text.locator("pre code")).to_have_text("kept = 35  # <b>days</b>")
    run = text.locator("strong .run.copied").first
    await expect(run).to_have_text(QUOTED)
    await run.hover()
    await expect(visit.page.locator("#passages .active mark")).to_have_text(QUOTED)

    await expect(text).to_contain_text("<img src=x onerror=alert(1)>")
    await expect(text).to_contain_text("![out](http://example.org/x.png)")
    assert await text.locator("img, b").count() == 0
    links = await text.locator("a").evaluate_all("all => all.map((one) => [one.textContent, one.href, one.rel])")
    assert links == [["good", "https://example.org/a", "noopener noreferrer nofollow"]]


@pytest.mark.parametrize(
    ("text", "start", "end", "shown"),
    [
        ("It costs 86,75 euros.", 10, 11, False),
        ("It costs 86,75 euros.", 8, 11, False),
        ("It costs 86,75 euros.", 9, 14, True),
        ("It costs 86,75 euros.", 14, 19, False),
        ("It costs 86,75 euros.", 3, 9, True),
        ("\u5907\u4efd\u4fdd\u7559\u4e09\u5341\u4e94\u5929", 2, 5, True),
    ],
)
async def test_what_is_no_word_gets_no_tint(visit: Any, text: str, start: int, end: int, shown: bool) -> None:
    """A drafted digit of a number, or the beginning of a word, says nothing of where it is from."""
    marked = await visit.page.evaluate(
        """async ([text, start, end]) => {
            const { runs } = await import("/web/answer/provenance.js");
            const spans = [{ answer_start: start, answer_end: end, kind: "question" }];
            return runs(Array.from(text), spans, null, []).filter((run) => run.mark).map((run) => run.text);
        }""",
        [text, start, end],
    )
    assert marked == ([text[start:end]] if shown else [])


@pytest.mark.parametrize(
    ("text", "citations", "shown", "copied"),
    [
        ("U betaalt per maand.", [(0, 16, 0, "copied")], "U betaalt per maand¹.", "U betaalt per maand [1]."),
        (
            "per maand *5 euro*",
            [(0, 6, 0, "copied"), (6, 18, 1, "retrieved")],
            "per maand¹ 5 euro²",
            "maand [1] *5 euro* [2]",
        ),
        ("It costs 86,75 euros.", [(0, 11, 0, "copied")], "It costs 86,75¹ euros.", "86,75 [1] euros."),
        ("the auto's *wheel*", [(0, 8, 0, "copied")], "the auto's¹ wheel", "the auto's [1] *"),
        ("zwei cafe\u0301s", [(0, 8, 0, "copied")], "zwei cafe\u0301s¹", "cafe\u0301s [1]"),
        ("of a month", [(0, 6, 0, "copied"), (6, 10, 1, "copied")], "of a month¹²", "of a month [1] [2]"),
        ("備份保留三十五天", [(0, 4, 0, "copied")], "備份保留¹三十五天", "備份保留 [1]三"),
    ],
)
async def test_no_number_stands_inside_a_word(
    visit: Any, text: str, citations: list[tuple[int, int, int, str]], shown: str, copied: str
) -> None:
    """The copied tokens of an answer may end within a word; their tint ends there, their number stands behind it."""
    found = await visit.page.evaluate(
        """async ([text, cited]) => {
            const { AnswerText } = await import("/web/answer/text.js");
            const { withSources } = await import("/web/answer/export.js");
            const made = new AnswerText(() => {}, () => null);
            made.passages = ["a", "b"].map((one) => (
              { document_id: one, chunk_id: one, title: one, text: "x".repeat(99), source_start: 0 }));
            made.finish(text, cited.map(([start, end, passage, kind]) => ({ kind, chunk_id: "ab"[passage],
              answer_start: start, answer_end: end, source_start: start, source_end: end })));
            made.element.querySelectorAll("sup").forEach((one) => { one.textContent = "⁰¹²"[one.textContent]; });
            const tints = [...made.element.querySelectorAll(".tint-0")].filter((one) => one.matches(".run"));
            return [made.element.querySelector(".markdown").textContent, tints.map((one) => one.textContent).join(""),
              withSources(made.runs, made.passages)];
        }""",
        [text, citations],
    )
    assert found[0] == shown
    assert found[1] == text[: citations[0][1]]
    assert copied in found[2]


async def test_words_that_stay_keep_the_focus_while_others_come(visit: Any, scene: Any) -> None:
    stage = scene.stage
    stage.hold_at = 40
    stage.answers[BACKUPS] = f"The policy says: **{QUOTED}** And that is all that it says.\n\n- really\n- all"
    await visit.ask(BACKUPS)
    run = visit.turn().locator("strong .run").first
    await expect(run).to_contain_text("Backups are encrypted")
    handle = await run.element_handle()
    stage.open.set()
    await visit.answered()
    await expect(visit.turn().locator(".answer-text li")).to_have_count(2)
    assert await handle.evaluate("node => node.isConnected")


async def test_an_answer_is_copied_with_its_sources_and_a_conversation_is_saved(
    visit: Any, scene: Any, tmp_path: Any
) -> None:
    await visit.ask(BACKUPS)
    turn = await visit.answered()
    copied = await visit.page.evaluate(
        """async () => {
          const written = new Promise((done) => {
            const write = async ([item]) => done(await (await item.getType("text/plain")).text());
            Object.defineProperty(navigator, "clipboard", { value: { write } });
          });
          document.querySelector('[data-do="copy-sources"]').click();
          return await written;
        }"""
    )
    plain = await turn.locator(".answer-text").evaluate(
        "node => { const copy = node.cloneNode(true);"
        " copy.querySelectorAll('sup, [hidden]').forEach((n) => n.remove()); return copy.textContent; }"
    )
    text, _, sources = copied.partition("\n\nSources:\n\n")
    assert QUOTED in text.replace(" [1]", "").replace(" [2]", "")
    assert len(text) > len(plain)
    assert " · data-retention.md\n" in f"{sources}\n"
    assert sources.startswith("* [")
    async with visit.page.expect_download() as waiting:
        await visit.page.get_by_role("button", name="Export").click()
    today = await visit.page.evaluate("new Date().toLocaleDateString('sv')")
    day = await visit.page.evaluate("new Date().toLocaleDateString('en', { dateStyle: 'long' })")
    download = await waiting.value
    assert download.suggested_filename == f"How-long-are-backups-kept-{today}.md"
    await download.save_as(tmp_path / "saved.md")
    await download.delete()  # Firefox would number the next file of this name
    saved = (tmp_path / "saved.md").read_text(encoding="utf-8")
    assert saved == f"# {BACKUPS}\n\n*{day}*\n\n{copied}\n"


@pytest.mark.parametrize(
    ("question", "name"),
    [
        ('../a\\b: <c> *?|"\n\u202ed', "a-b-c-d"),
        ("Wie groß ist die Übersicht?", "Wie-groß-ist-die-Übersicht"),
        ("備份保留多久？", "備份保留多久"),
        ("สำรองข้อมูลเก็บไว้นานเท่าไร", "สำรองข้อมูลเก็บไว้นานเท่าไร"),
        ("😀?", "conversation"),
        ("one two three four five six seven eight nine ten eleven", "one-two-three-four-five-six-seven-eight-nine"),
        ("x" * 99, "x" * 46),
    ],
)
async def test_a_saved_conversation_is_named_by_its_question(visit: Any, question: str, name: str) -> None:
    made = await visit.page.evaluate(
        "async (text) => (await import('/web/answer/export.js')).fileName(text, new Date(2026, 2, 5))", question
    )
    assert made == f"{name}-2026-03-05.md"
    assert len(made) <= 60


@pytest.mark.parametrize(("system", "other"), [("light", "dark"), ("dark", "light")])
async def test_the_theme_is_chosen_and_kept(new_visit: Any, system: str, other: str) -> None:
    """From the system's on, the first press changed nothing that one sees."""
    page = (await new_visit(color_scheme=system)).page
    theme = "getComputedStyle(document.documentElement).colorScheme"
    await expect(page.locator("#theme")).to_have_attribute("aria-label", "Theme: auto")
    assert await page.evaluate(theme) == "light dark"
    for name in (other, system):
        await page.locator("#theme").click()
        await expect(page.locator("#theme")).to_have_attribute("aria-label", f"Theme: {name}")
        assert await page.evaluate(theme) == name
    await page.reload()
    assert await page.evaluate(theme) == system
    for name in (other, "auto", system):  # the first press of a later visit, too
        await page.locator("#theme").click()
        await expect(page.locator("#theme")).to_have_attribute("aria-label", f"Theme: {name}")
    await page.locator("#theme").click()
    await page.reload()
    await page.locator("#theme").click()
    await expect(page.locator("#theme")).to_have_attribute("aria-label", f"Theme: {system}")
