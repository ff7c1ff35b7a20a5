"""What stands below an answer about words that are from no passage: it looks as they do, and is a title of its own."""

from __future__ import annotations

from typing import Any

import pytest
from playwright.async_api import expect

pytestmark = [
    pytest.mark.asyncio(loop_scope="session"),
    pytest.mark.decoder_only("the page is the same with every engine"),
]

KINDS = ("answer", "edited", "question", "itself", "neural", "store", "instruction", "prediction", "system")
SHOW = """async (kinds) => {
  const { AnswerView } = await import("/web/answer/view.js");
  const quiet = { list() {}, show() {}, openList() {} };
  const view = new AnswerView({ sources: quiet, earlier: () => null, question: "Why?" });
  view.secondary = true;
  const words = kinds.map((kind) => `some words of ${kind}`);
  let at = 0;
  for (const [number, kind] of kinds.entries()) {
    const end = at + words[number].length;
    view.text.spans.push({ answer_start: at, answer_end: end, kind, drafter: "auto" });
    at = end + 2;
  }
  view._finish({ answer: words.join("; "), passages: [], citations: [], seed: 1 });
  document.getElementById("turns").append(view.element);
}"""
LOOK = """node => {
  const style = getComputedStyle(node);
  const line = style.textDecorationLine === "none" ? [] : [style.textDecorationStyle, style.textDecorationColor];
  const ground = /[ ,/]0\\)$/.test(style.backgroundColor) ? [] : [style.backgroundColor];
  return [...line, ...ground].join();
}"""
"""The line below words and their ground; empty for plain words."""


@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_words_from_elsewhere_look_as_the_legend_says(new_visit: Any, scheme: str) -> None:
    """Words of the question had no mark, and the legend named them with one."""
    page = (await new_visit(color_scheme=scheme)).page
    await page.evaluate(SHOW, KINDS)
    runs = page.locator("#turns .run")
    await expect(runs).to_have_count(len(KINDS))
    looks = [await run.evaluate(LOOK) for run in await runs.all()]
    swatches = [await one.evaluate(LOOK) for one in await page.locator("#turns .swatch").all()]
    assert set(swatches) == set(looks)
    assert len(swatches) == len(KINDS)
    assert "" not in looks


@pytest.mark.parametrize(
    ("locale", "named"),
    [
        ("en", ["Your question", "Your instruction", "The prompt", "Guesses of the model"]),
        ("de", ["Ihre Frage", "Ihre Anweisung", "Der Prompt", "Vermutungen des Modells"]),
        ("nl", ["Uw vraag", "Uw opdracht", "De prompt", "Vermoedens van het model"]),
    ],
)
async def test_the_legend_names_them_as_titles(new_visit: Any, locale: str, named: list[str]) -> None:
    """`Ihrer Frage` was half a sentence."""
    page = (await new_visit(locale=locale)).page
    await page.evaluate(SHOW, ["question", "instruction", "template", "neural"])
    await expect(page.locator("#turns .legend-kind")).to_have_text([f"abc{name}" for name in named])
