"""The page in a browser: ask, stream, sources, follow up, edit, compare, reload in the middle."""

from __future__ import annotations

import asyncio
import json
import re
from typing import Any

import httpx
import pytest
from playwright.async_api import Route, expect

from tests.rag_service.web.conftest import SWITCH
from workers.support.calibration import ENGINE, Calibration, Logistic
from workers.worker.supporter import Supporter

pytestmark = pytest.mark.asyncio(loop_scope="session")

BACKUPS = "How long are backups kept?"
FOLLOW_UP = "Who can lift a legal hold?"
QUOTED = "Backups are encrypted and kept for 35 days."
BREAKING = """() => {
  const whole = window.fetch;
  window.fetch = async (path, options) => {
    const response = await whole(path, options);
    if (!String(path).endsWith("v1/query")) return response;
    const events = (await response.text()).split("\\n\\n");
    return new Response(`${events.slice(0, 2).join("\\n\\n")}\\n\\n${events[2].slice(0, 20)}`, response);
  };
}"""
"""Lets through two events of the answer's first connection, whole, and half of the third."""
KEEP_QUESTIONS = """() => {
  const fetch = window.fetch;
  window.questions = [];
  window.fetch = (path, options) => {
    if (String(path).endsWith("v1/query")) window.questions.push(options.body);
    return fetch(path, options);
  };
}"""
"""Keeps the bodies of questions; not every browser shows them to who drives it."""


async def test_an_answer_streams_and_its_copied_words_show_their_source(visit: Any, scene: Any) -> None:
    page, stage = visit.page, scene.stage
    stage.hold_at = 30
    await visit.ask(BACKUPS)
    text = visit.turn().locator(".answer-text")
    await expect(text).to_contain_text("The data retention policy")
    await expect(visit.turn().locator(".answer")).to_have_attribute("aria-busy", "true")
    await expect(text).not_to_contain_text("after 90 days")
    await expect(visit.turn().locator(".run.from-passage").first).to_be_visible()  # tinted while it streams
    stage.open.set()
    turn = await visit.answered()
    assert await spoken(text) == stage.answers[BACKUPS]

    run = turn.locator(".run.copied", has_text=QUOTED).first
    await run.hover()
    active = page.locator("#passages .passage.active")
    await expect(active.locator("h3")).to_have_text("Data retention policy")
    marked = await active.locator("mark").inner_text()
    assert marked == await run.inner_text()
    passage = await active.locator(".passage-text").inner_text()
    assert marked in passage
    assert len(passage) > len(marked)

    other = turn.locator(".run.copied", has_text="logs are deleted after 90 days").first
    await other.hover()
    await expect(active.locator("mark")).to_have_text(await other.inner_text())

    await active.get_by_role("button", name="Show the whole document").click()
    whole = active.locator(".passage-text.whole")
    await expect(whole).to_contain_text("Only the general counsel can lift a legal hold.")
    await expect(whole.locator("mark")).to_have_text(await other.inner_text())

    told = await turn.locator(".meter-text").inner_text()
    if scene.settings:  # a model server tells no passes
        assert re.match(r"about \d+ tokens · ", told), told
        return
    steps, plain = map(int, re.search(r"(\d+) instead of (\d+)", told).groups())  # type: ignore[union-attr]
    assert 0 < steps < plain
    assert plain == len(scene.tokens.encode_content(stage.answers[BACKUPS]).ids)  # the end token counts, the first not


async def test_the_page_names_the_model_and_says_that_it_is_a_toy(visit: Any, scene: Any) -> None:
    told = "Model: smollm2-135m"
    if not scene.settings:  # nothing is known of a model server's model
        told += ", a small demo model for tests; its answers are often wrong"
    await expect(visit.page.locator("#model")).to_have_text(told)
    await expect(visit.page.locator("#model")).to_be_visible()


@pytest.mark.decoder_only("its worker's calibration is replaced")
async def test_a_warning_stands_above_a_doubtful_answer(
    visit: Any, scene: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whichever calibration the package has: what is doubtful is set here."""
    evidence = Logistic(0.0, {"evidence": 5.0}, {"evidence": 0.3}, {"evidence": 0.1})
    own = Calibration("fake", "float32", ENGINE, "", evidence, evidence, 0.5, 0, ["en"])
    monkeypatch.setattr(scene.place, "supporter", Supporter(scene.tokens, "fake", "float32", own))
    scene.stage.answers[BACKUPS] = "Zebras graze at dawn."
    await visit.ask(BACKUPS)
    turn = await visit.answered()
    warning = turn.locator(".warning")
    await expect(warning).to_have_text(re.compile("probably do not answer this question"))
    above, text = await warning.bounding_box(), await turn.locator(".answer-text").bounding_box()
    assert above["y"] + above["height"] <= text["y"]
    nearest = turn.locator(".nearest")
    await expect(nearest).to_contain_text("Nearest in the documents: “")
    await nearest.get_by_role("button").click()
    quoted = (await nearest.get_by_role("button").inner_text()).strip("“”")
    assert quoted == QUOTED
    await expect(visit.page.locator("#passages .active mark").first).to_be_visible()
    marked = "".join(await visit.page.locator("#passages .active mark").all_inner_texts())
    assert marked.split()[:3] == quoted.split()[:3]
    async with visit.page.expect_download() as waiting:
        await visit.page.get_by_role("button", name="Export").click()
    saved = (await (await waiting.value).path()).read_text(encoding="utf-8")
    told = [line for line in saved.splitlines() if line.startswith("> ")]
    assert told == [f"> {await warning.inner_text()}", f"> Nearest in the documents: “{quoted}”"]
    scene.stage.answers[FOLLOW_UP] = "Only the general counsel can lift a legal hold."
    await visit.ask(FOLLOW_UP)
    turn = await visit.answered(1)
    await expect(turn.locator(".warning")).to_be_hidden()
    await expect(turn.locator(".nearest")).to_be_hidden()
    await turn.get_by_text("How it was made").click()
    await expect(turn.get_by_text("by its words alone")).to_have_count(
        0
    )  # the model was asked, without stored rows too


async def test_a_follow_up_goes_on_in_the_session_and_names_the_earlier_answer(visit: Any, scene: Any) -> None:
    await visit.ask(BACKUPS)
    await visit.answered()
    first = await session_of(visit)
    await visit.ask(FOLLOW_UP)
    await expect(visit.page.locator(".turn")).to_have_count(2)
    await visit.answered(1)
    assert await session_of(visit) == first
    async with httpx.AsyncClient(base_url=visit.url) as client:
        turns = (await client.get(f"/v1/sessions/{first}")).json()["turns"]
    assert [turn["question"] for turn in turns] == [BACKUPS, FOLLOW_UP]
    own = visit.turn(1).locator(".run.from-earlier")
    await own.hover()
    earlier = visit.page.locator("#passages .active")
    await expect(earlier.locator("h3")).to_have_text("An earlier answer")
    marked = await earlier.locator("mark").inner_text()
    assert marked == await own.inner_text()
    assert marked in turns[0]["answer"]
    assert "weeks; the same document" in marked
    assert ("for five" in marked) == (not scene.settings)  # without drafts, some words must be equal first


async def test_answer_again_samples_and_the_earlier_answer_stays(visit: Any, scene: Any) -> None:
    await visit.page.evaluate(KEEP_QUESTIONS)
    await visit.ask(BACKUPS)
    turn = await visit.answered()
    first = scene.stage.answers[BACKUPS]
    scene.stage.answers[BACKUPS] = "The data retention policy answers this: 35 days."
    await visit.page.get_by_role("combobox", name="Collection").select_option("hostile")  # of the next question
    again = turn.get_by_role("button", name="Answer again")
    assert "temperature 0.8" in (await again.get_attribute("title"))
    await again.click()
    await expect(visit.page.locator(".turn")).to_have_count(2)
    await expect((await visit.answered(1)).locator(".question")).to_have_text(BACKUPS)
    asked = [json.loads(body) for body in await visit.page.evaluate("window.questions")]
    assert [one.get("temperature") for one in asked] == [None, 0.8]
    assert {one["collection"] for one in asked} == {"handbook"}
    answers = [await answer_of(visit, n) for n in range(2)]
    assert answers == [first, scene.stage.answers[BACKUPS]]
    async with httpx.AsyncClient(base_url=visit.url) as client:
        turns = (await client.get(f"/v1/sessions/{await session_of(visit)}")).json()["turns"]
        seeds = [(await client.get(f"/v1/answers/{turn['answer_id']}")).json()["seed"] for turn in turns]
    assert [(one["question"], one["answer"]) for one in turns] == [(BACKUPS, answer) for answer in answers]
    assert len(set(seeds)) == 2


async def test_an_edit_takes_the_answers_place_and_versions_can_be_chosen(visit: Any, scene: Any) -> None:
    await visit.ask(BACKUPS)
    turn = await visit.answered()
    await turn.get_by_role("button", name="Edit").click()
    await visit.page.get_by_label("What should change?").fill("Say the number of days first.")
    await visit.page.keyboard.press("Enter")
    await expect(turn.get_by_text("Version 2 of 2")).to_be_visible()
    await visit.answered()
    text = turn.locator(".answer-text")
    assert await spoken(text) == scene.stage.answers["Say the number of days first."]
    await expect(turn.get_by_text("Changed: Say the number of days first.")).to_be_visible()
    await turn.get_by_role("button", name="Previous version").click()
    assert await spoken(text) == scene.stage.answers[BACKUPS]
    await expect(visit.page.locator(".turn")).to_have_count(1)

    await visit.page.reload()  # versions are found again
    turn = await visit.answered()
    assert await spoken(turn.locator(".answer-text")) == scene.stage.answers["Say the number of days first."]
    await turn.get_by_role("button", name="Previous version").click()
    await expect(turn.locator(".run.copied", has_text=QUOTED).first).to_be_visible()
    assert await spoken(turn.locator(".answer-text")) == scene.stage.answers[BACKUPS]
    await visit.page.get_by_role("button", name="History").click()
    listed = visit.page.locator("#history .session[aria-current=true]")
    await expect(listed).to_contain_text("1 question ·")  # a version is none


async def test_a_reload_in_the_middle_goes_on_with_the_answer(visit: Any, scene: Any) -> None:
    stage = scene.stage
    stage.hold_at = 25
    await visit.ask(BACKUPS)
    await expect(visit.turn().locator(".answer-text")).to_contain_text("The data")
    assert await asyncio.to_thread(stage.waiting.wait, 30)
    await visit.page.reload()
    await expect(visit.turn().locator(".question")).to_have_text(BACKUPS)
    await expect(visit.turn().locator(".answer-text")).to_contain_text("The data")
    await expect(visit.page.get_by_role("button", name="Stop")).to_be_enabled()
    stage.open.set()
    turn = await visit.answered()
    assert await spoken(turn.locator(".answer-text")) == stage.answers[BACKUPS]
    await expect(visit.page.locator(".turn")).to_have_count(1)


async def test_a_question_that_is_asked_while_the_page_starts_stays(new_visit: Any, scene: Any) -> None:
    """It vanished when the page, still starting, came to the conversation of its address: none yet."""
    visit = await new_visit()
    may_start, may_answer = asyncio.Event(), asyncio.Event()

    async def later(route: Route) -> None:
        await (may_start if route.request.url.endswith("sign-in") else may_answer).wait()
        await route.continue_()

    await visit.page.route(re.compile(r"/v1/(sign-in|query)$"), later)
    await visit.page.reload()
    await visit.page.get_by_role("combobox", name="Collection").select_option("handbook")
    await visit.ask(BACKUPS)
    await expect(visit.turn().locator(".question")).to_have_text(BACKUPS)
    async with visit.page.expect_response(lambda one: one.url.endswith("sign-in")) as started:
        may_start.set()
    await (await started.value).finished()
    await visit.page.evaluate("new Promise((done) => setTimeout(done))")  # after what the page does with it
    may_answer.set()
    await visit.answered()


async def test_a_stream_that_breaks_goes_on_where_it_broke(new_visit: Any, scene: Any) -> None:
    visit = await new_visit()
    asked: list[dict[str, str]] = []
    visit.page.on("request", lambda one: asked.append(one.headers) if one.url.endswith("/events") else None)
    await visit.page.evaluate(BREAKING)
    await visit.page.get_by_role("combobox", name="Collection").select_option("handbook")
    await visit.ask(BACKUPS)
    turn = await visit.answered()
    assert await spoken(turn.locator(".answer-text")) == scene.stage.answers[BACKUPS]
    assert [bool(headers.get("last-event-id")) for headers in asked] == [True]


@pytest.mark.decoder_only("there is no plain decoding to compare with")
async def test_both_ways_of_decoding_stand_side_by_side(visit: Any) -> None:
    await visit.ask(BACKUPS)
    turn = await visit.answered()
    await expect(visit.page.locator("form").get_by_role("switch")).to_have_count(0)
    await visit.compare(turn)
    await visit.ask(FOLLOW_UP)
    turn = await visit.answered(1)
    await expect(turn.locator(".verdict.same")).to_contain_text("Identical")
    columns = turn.locator(".answer")
    await expect(columns).to_have_count(2)
    texts = [await spoken(columns.nth(n).locator(".answer-text")) for n in range(2)]
    assert texts[0] == texts[1]
    fewer, one_each = [await columns.nth(n).locator(".meter-text").inner_text() for n in range(2)]
    assert "instead of" in fewer
    assert "passes for" in one_each
    async with httpx.AsyncClient(base_url=visit.url) as client:
        session = (await client.get(f"/v1/sessions/{await session_of(visit)}")).json()
    assert len(session["turns"]) == 2  # the plain one is no turn of it

    await columns.nth(0).locator(".meter summary").click()
    last = columns.nth(0).get_by_label(SWITCH)
    await expect(last).to_be_checked()
    await last.uncheck()
    await expect(visit.turn(0).get_by_label(SWITCH)).not_to_be_checked()
    await visit.ask(BACKUPS)
    turn = await visit.answered(2)
    await expect(turn.locator(".answer")).to_have_count(1)


async def test_stop_ends_an_answer(visit: Any, scene: Any) -> None:
    scene.stage.hold_at = 12
    await visit.ask(BACKUPS)
    assert await asyncio.to_thread(scene.stage.waiting.wait, 30)
    stop = visit.page.get_by_role("button", name="Stop")
    async with visit.page.expect_response(lambda answer: answer.request.method == "DELETE"):
        await stop.click()
    await asyncio.to_thread(scene.wait_for_cancel)
    scene.stage.open.set()
    await expect(visit.turn().get_by_text("You stopped this answer.")).to_be_visible()
    await expect(visit.page.get_by_role("button", name="Ask")).to_be_enabled()


async def session_of(visit: Any) -> str:
    found = re.search(r"session=([^&]+)", visit.page.url)
    assert found
    return found.group(1)


async def answer_of(visit: Any, number: int) -> str:
    return await spoken(visit.turn(number).locator(".answer-text"))


async def spoken(text: Any) -> str:
    """What the page shows as the answer, the numbers of its sources left out."""
    found: str = await text.evaluate(
        "node => { const copy = node.cloneNode(true); copy.querySelectorAll('sup, [hidden]').forEach(n => n.remove());"
        " return copy.textContent; }"
    )
    return found


async def test_every_kind_of_source_has_its_tint(visit: Any) -> None:
    """The page's own reading of spans and citations, in code points."""
    found = await visit.page.evaluate(
        """async () => {
          const { runs } = await import("/web/answer/provenance.js");
          const { tint } = await import("/web/answer/text.js");
          const a = { document_id: "d", chunk_id: "a" };
          const b = { document_id: "d", chunk_id: "b" };
          const passages = [
            { ...a, title: "A", text: "😀 kept for 35 days, then gone.", source_start: 10 },
            { ...b, title: "B", text: "other", source_start: 90 },
          ];
          const span = (start, end, kind, more = {}) =>
            ({ answer_start: start, answer_end: end, kind, drafter: "x", ...more });
          const points = Array.from("😀 kept for 35 days; 🦊 guess again so far");
          const spans = [
            span(0, 6, "passage", { ...a, source_start: 10, source_end: 16 }),
            span(10, 18, "passage", { ...a, source_start: 20, source_end: 28 }),
            span(20, 21, "itself"),
            span(22, 27, "neural"),
            span(28, 33, "answer", { answer_id: "e", source_start: 0, source_end: 5 }),
          ];
          const shown = (citations) => runs(points, spans, citations, passages).map((run) =>
            [run.text, run.mark && tint(run.mark), run.mark?.cited ?? null, run.mark?.from ?? null]);
          return [shown(null), shown([
            { answer_start: 2, answer_end: 16, ...b, source_start: 90, source_end: 104, kind: "copied" },
            { answer_start: 0, answer_end: 21, ...a, source_start: 10, source_end: 41, kind: "retrieved" },
          ]), shown([
            { answer_start: 38, answer_end: 40, ...b, source_start: 90, source_end: 92, kind: "copied" },
            { answer_start: 37, answer_end: 40, ...a, source_start: 10, source_end: 13, kind: "retrieved" },
          ])];
        }"""
    )
    rest: list[list[Any]] = [[" ", None, None, None], ["guess", "from-neural", None, None], [" ", None, None, None]]
    rest += [["again", "from-earlier", None, 0], [" so far", None, None, None]]
    assert found[0] == [
        ["😀 kept for 35 days", "from-passage tint-0", None, 0],  # the gap says what the passage says
        ["; ", None, None, None],
        ["🦊", "from-itself", None, None],
        *rest,
    ]
    assert found[1] == [
        ["😀 ", "from-passage tint-0", None, 0],
        ["kept for 35 da", "from-passage tint-1", "copied", 0],
        ["ys", None, None, None],  # a part of a word
        ["; ", "from-passage tint-0", "retrieved", 0],
        ["🦊", "from-itself", None, None],
        *rest,
    ]
    assert found[2][-3:] == [
        [" so ", None, None, None],
        ["f", None, None, None],  # a number behind it would stand inside the word
        ["ar", "from-passage tint-1", "copied", 0],
    ]
