"""The page in German and Dutch: every text has its translation, and the browser's language chooses."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import expect

import rag_service
from decoder.drafter_names import DRAFTER_NAMES
from rag_service.answering import answers
from rag_service.answering.names import NO_COLLECTION
from tests.rag_service.web.conftest import BACKUPS
from tests.rag_service.web.test_web_documents import PHONE, ROWS
from workers.upstream.answer import STARTED_AGAIN

browsed = pytest.mark.asyncio(loop_scope="session")
one_engine = pytest.mark.decoder_only("texts do not depend on the engine")

WEB = Path(rag_service.__file__).parent / "web"
LANGUAGES = ("de", "nl")
STRING = r'"((?:[^"\\]|\\.)*)"'
NOTES = {
    answers.NO_PASSAGES,
    answers.FILTERED,
    answers.UNSUPPORTED,
    answers.UNANSWERED,
    answers.REFUSED,
    answers.NOT_FOUND,
    answers.RETRIEVAL_OFF,
    answers.UNCHANGED,
    answers.DOUBTFUL,
    answers.REPEATED,
    *answers.OWN_WORDS.values(),
    NO_COLLECTION,
    STARTED_AGAIN,
}
"""Texts of the service that come with an answer, and are shown in the page's language."""
SAME = {
    "“{words}”",
    *("Account", "Document", "Model: {name}", "Name", "Person", "Prompt", "Seed", "Stop"),
    *("{n} token", "{n} tokens", "{n} document", "{n} passage", "{n} passages"),
}
"""Texts that may be as they are in English in one of the languages."""


def texts(language: str) -> dict[str, str]:
    """A language's texts by the English ones."""
    source = (WEB / "texts" / f"{language}.js").read_text(encoding="utf-8")
    found: dict[str, str] = json.loads(source[source.index("{") :].replace(",\n};", "\n}"))
    return found


def scripts() -> dict[str, str]:
    """The page's own scripts by name, without the texts."""
    return {
        path.relative_to(WEB).as_posix(): path.read_text(encoding="utf-8")
        for path in WEB.rglob("*.js")
        if path.parent.name not in ("texts", "vendor")
    }


def used(script: str) -> set[str]:
    """What a script hands to `t` and `count`."""
    found = set(re.findall(rf"\bt\(\s*{STRING}", script))
    for both in re.findall(rf"\bt\([^()\"]*\? {STRING} : {STRING}", script):
        found |= set(both)
    for both in re.findall(rf"\bcount\([^\"]*?{STRING},\s*{STRING}", script):
        found |= set(both)
    return found


def placeholders(text: str) -> list[str]:
    return sorted(re.findall(r"\{\w+\}", text))


@one_engine
def test_the_page_knows_a_warning_that_goes_on_by_the_services_words() -> None:
    source = scripts()["answer/view.js"]
    said = source[source.index("const DOUBTFUL =") :].partition(";")[0]
    assert "".join(re.findall(STRING, said)) == answers.DOUBTFUL


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_text_is_translated_and_no_other(language: str) -> None:
    translated = texts(language)
    wanted = set().union(*map(used, scripts().values()))
    assert len(wanted) > 150
    assert wanted - translated.keys() == set(), "these have no translation"
    assert translated.keys() >= NOTES
    page = " ".join((WEB / "index.html").read_text(encoding="utf-8").split())
    everything = " ".join([*scripts().values(), page])
    unused = {text for text in translated if text not in everything} - NOTES
    assert unused == {"a small demo model for tests; its answers are often wrong"}, "nothing says these any more"
    for text, own in translated.items():
        assert placeholders(text) == placeholders(own), text
        assert own.strip() == own != ""
    assert {text for text, own in translated.items() if own == text} <= SAME


def test_both_languages_have_the_same_texts_in_the_same_order() -> None:
    assert list(texts("de")) == list(texts("nl"))


@browsed
@one_engine
@pytest.mark.parametrize(("language", "locale"), [("de", "de-AT"), ("nl", "nl-NL")])
async def test_the_page_speaks_the_browsers_language(new_visit: Any, scene: Any, language: str, locale: str) -> None:
    own = texts(language)
    visit = await new_visit(locale=locale)
    page = visit.page
    assert await page.evaluate("document.documentElement.lang") == language
    await page.get_by_role("combobox", name=own["Collection"]).select_option("handbook")
    await expect(page.locator("#starters button")).to_have_count(3)
    assert await english(page, own) == []
    for words in ("year >= 2020", 'team = "{filter}"'):
        note = answers.FILTERED.replace("{filter}", words)
        assert await said(page, note) == own[answers.FILTERED].replace("{filter}", words)
    both = f"{answers.UNCHANGED} {answers.DOUBTFUL}"
    assert await said(page, both) == f"{own[answers.UNCHANGED]} {own[answers.DOUBTFUL]}"
    assert await said(page, "A remark of a later version.") == "A remark of a later version."
    await page.get_by_label(own["Your question"]).fill(BACKUPS)
    await page.get_by_role("button", name=own["Ask"], exact=True).click()
    turn = page.locator(".turn")
    await turn.get_by_role("button", name=own["Edit"], exact=True).wait_for()
    await turn.locator(".run.copied").first.click()
    await turn.get_by_text(own["How it was made"]).click()
    await turn.get_by_role("button", name=own["Bad answer"]).click()
    await expect(turn.get_by_label(own["What was wrong? (optional)"])).to_be_visible()
    assert await english(page, own) == []
    await page.get_by_role("button", name=own["Documents"], exact=True).click()
    await page.get_by_role("button", name=own["Read {title}"].replace("{title}", "Travel policy")).click()
    await expect(page.locator("#reading .passage-text")).to_be_visible()
    assert await english(page, own) == []


async def said(page: Any, remark: str) -> str:
    """A remark of the service as the page shows it."""
    script = "async ([place, remark]) => (await import(place)).said(remark)"
    place = await page.evaluate("new URL('language.js', document.querySelector('script[type=module]').src).href")
    shown: str = await page.evaluate(script, [place, remark])
    return shown


async def english(page: Any, own: dict[str, str]) -> list[str]:
    """The English texts that are on the page, between tags or in what a screen reader reads."""
    shown = await page.evaluate(
        """() => {
            const found = [];
            const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
            while (texts.nextNode()) {
                if (!texts.currentNode.parentElement.closest("noscript")) found.push(texts.currentNode.data);
            }
            for (const name of ["aria-label", "placeholder", "title"]) {
                for (const element of document.querySelectorAll(`[${name}]`)) found.push(element.getAttribute(name));
            }
            return found.map((one) => one.trim().replace(/\\s+/g, " "));
        }"""
    )
    named = {text for text, translated in own.items() if text != translated and "{" not in text}
    return [text for text in shown if text in named]


@browsed
@one_engine
@pytest.mark.parametrize(("locale", "point", "comma"), [("de-DE", ",", "."), ("nl-NL", ",", "."), ("en-GB", ".", ",")])
async def test_numbers_are_written_as_the_language_does(
    new_visit: Any, scene: Any, locale: str, point: str, comma: str
) -> None:
    visit = await new_visit(locale=locale)
    shown = await visit.page.evaluate(
        """async () => {
            const { Meter } = await import("/web/answer/meter.js");
            const { count, t } = await import("/web/language.js");
            const meter = new Meter();
            meter.set(1234, 12345, 4500);
            meter.tell({ seed: 1234567, support: 0.5, calibrated: true, timings: { prefill: 999, decode: 1234567 },
              usage: { prompt_tokens: 30000, completion_tokens: 7, prompt_tokens_details: { cached_tokens: 2000 } },
              speculation: { drafter: "auto", steps: 1234, plain_equivalent_steps: 12345,
                accepted: 5678, drafted: 9012 } });
            const again = t("again at {temperature}", { temperature: 0.8 });
            return [meter.element.textContent, count(1500, "{n} source", "{n} sources"), again].join(" ");
        }"""
    )
    for number in (
        "1,234",
        "12,345",
        "4.5 s",
        "999 ms",
        "1,234.6 s",
        "30,000",
        "2,000",
        "5,678",
        "9,012",
        "0.50",
        "1,500",
        "0.8",
    ):
        wanted = number.translate(str.maketrans({".": point, ",": comma}))
        assert re.search(rf"(?<![\d.,]){re.escape(wanted)}(?![\d])", shown), (wanted, shown)
    assert "1234567" in shown, "a seed is no amount"


@browsed
@one_engine
@pytest.mark.parametrize("locale", ["en", *LANGUAGES])
async def test_drafters_are_explained(new_visit: Any, scene: Any, locale: str) -> None:
    """Their names stood alone: `– recycling`."""
    names = sorted({part for name in DRAFTER_NAMES for part in name.split("+")} - {"off", "plain"})
    page = (await new_visit(locale=locale)).page
    shown = await page.evaluate(
        """async (names) => {
            const { Meter } = await import("/web/answer/meter.js");
            const meter = new Meter();
            const of = names.map((name) => [name, { accepted: 3, drafted: 8 }]);
            meter.tell({ seed: 1, speculation: { drafter: "auto", steps: 9, plain_equivalent_steps: 12, accepted: 3,
              drafted: 8, by_source: Object.fromEntries([...of, ["another", { accepted: 1, drafted: 2 }]]) } });
            const texts = (row) => [...row.children].map((one) => one.textContent);
            return [...meter.element.querySelectorAll("dl div")].map(texts);
        }""",
        names,
    )
    told = {name.removeprefix("– "): value for name, value in shown if name.startswith("– ")}
    assert " · " not in told.pop("another")
    explained = {name: value.partition(" · ")[2] for name, value in told.items()}
    assert sorted(name for name, what in explained.items() if what) == names
    if locale != "en":
        own = texts(locale)
        assert set(explained.values()) <= set(own.values())
        assert not set(explained.values()) & set(own)


@browsed
@one_engine
@pytest.mark.parametrize(
    ("locale", "date"),
    [
        ("en-GB", "7 March 2026"),
        ("en-US", "March 7, 2026"),
        ("de-AT", "7. März 2026"),
        ("fr-FR", "March 7, 2026"),
    ],
)
async def test_dates_are_written_as_the_region_does(new_visit: Any, scene: Any, locale: str, date: str) -> None:
    visit = await new_visit(locale=locale)
    day = "async () => (await import('/web/language.js')).day(new Date(2026, 2, 7))"
    assert await visit.page.evaluate(day) == date


@browsed
@one_engine
@pytest.mark.parametrize("locale", ["en", "de", "nl"])
@pytest.mark.parametrize("width", [360, 390])
async def test_the_header_has_two_lines_on_a_phone(new_visit: Any, scene: Any, locale: str, width: int) -> None:
    """In Dutch, one button stood alone on a third."""
    page = (await new_visit(**{**PHONE, "viewport": {"width": width, "height": 844}, "locale": locale})).page
    await page.evaluate("document.querySelectorAll('.bar button').forEach((one) => { one.hidden = false; })")
    assert await page.evaluate(ROWS) == 2
    assert await page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")


@browsed
@one_engine
async def test_another_language_gets_english(new_visit: Any, scene: Any) -> None:
    visit = await new_visit(locale="fr-FR")
    await expect(visit.page.get_by_role("heading", name="Ask your documents")).to_be_visible()
    assert await visit.page.evaluate("document.documentElement.lang") == "en"
