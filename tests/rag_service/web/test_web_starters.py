"""Questions to begin with: in the language of their documents, without the numbers of headings."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import httpx
import pytest
import pytest_asyncio
from playwright.async_api import expect

pytestmark = [
    pytest.mark.asyncio(loop_scope="session"),
    pytest.mark.decoder_only("texts of documents do not depend on the engine"),
]

GERMAN = """# Notfallplan der Reitschule

## 7 Alarm

Bei einem Brand wird der Alarm ausgelöst, und alle verlassen den Stall.

## 8 Übungen

Die Übungen finden zweimal im Jahr statt und werden von der Leitung vorbereitet.
"""
LEASE = """# Mietvertrag

## § 8 Laufzeit und Kündigung

Der Vertrag läuft auf unbestimmte Zeit und kann mit einer Frist von drei Monaten gekündigt werden.
"""
ENGLISH = "# Visitor guide\n\n## 24 Hours at the farm\n\nThe gates are open for visitors, and dogs must be on a lead."
DUTCH = "# Huisregels\n\n## 1. Stilte\n\nNa tien uur is het stil.\n\n## 2. Vuur\n\nVuur wordt met water gedoofd."
FRENCH = "# Règlement\n\n## Chapitre 3 : Baignade\n\nLa baignade est surveillée et les enfants sont avec un adulte."
SPANISH = "# Normas\n\n## Artículo 4. Basura\n\nLa basura se deja en los contenedores del camping y no en el suelo."
POLISH = "# Regulamin\n\n## Cisza nocna\n\nCisza nocna trwa od godziny dziesiątej do szóstej."
ASKED = {
    "de": "Was sagt „Notfallplan der Reitschule“ zu Alarm?",
    "lease": "Was sagt „Mietvertrag“ zu Laufzeit und Kündigung?",
    "en": "What does “Visitor guide” say about 24 Hours at the farm?",
    "nl": "Wat zegt “Huisregels” over Stilte?",
    "fr": "Que dit « Règlement » sur Baignade ?",
    "es": "¿Qué dice «Normas» sobre Basura?",
    "pl": "What does “Regulamin” say about Cisza nocna?",
}
"""Asked of each document on a page in English; of the last one, whose language no question is in, in the page's."""


@pytest_asyncio.fixture(loop_scope="session")
async def starters_of(new_visit: Any) -> AsyncIterator[Callable[..., Awaitable[Any]]]:
    """`await starters_of(texts, locale)`: the buttons of a new visit to a collection of these texts."""
    clients: list[httpx.AsyncClient] = []

    async def buttons(texts: list[str], locale: str = "en") -> Any:
        visit = await new_visit(locale=locale)
        client = httpx.AsyncClient(base_url=visit.url)
        clients.append(client)
        await client.post("/v1/collections", json={"name": "tongues"})
        sent = [("files", (f"text-{number}.md", text.encode())) for number, text in enumerate(texts)]
        job = (await client.post("/v1/collections/tongues/documents", files=sent)).json()["job_id"]
        while (await client.get(f"/v1/jobs/{job}")).json()["status"] in ("queued", "running"):
            await asyncio.sleep(0.05)
        await visit.page.reload()
        await visit.page.locator("#collection").select_option("tongues")
        return visit.page.locator("#starters button")

    yield buttons
    for client in clients:
        await client.delete("/v1/collections/tongues")
        await client.aclose()


@pytest.mark.parametrize(
    ("texts", "asked"),
    [
        ([GERMAN, LEASE, ENGLISH], [ASKED["de"], ASKED["lease"], ASKED["en"]]),
        ([DUTCH, FRENCH, SPANISH], [ASKED["nl"], ASKED["fr"], ASKED["es"]]),
        ([POLISH], [ASKED["pl"]]),
    ],
)
async def test_a_question_is_in_the_language_of_its_document(
    starters_of: Callable[..., Awaitable[Any]], texts: list[str], asked: list[str]
) -> None:
    """The embedding model finds little across languages: the first click on an English page over German documents
    gave a wrong answer."""
    await expect(await starters_of(texts)).to_have_text(asked)


async def test_a_german_page_asks_english_documents_in_english(starters_of: Callable[..., Awaitable[Any]]) -> None:
    starters = await starters_of([ENGLISH, "# Preise\n\nDer Eintritt ist für Kinder frei."], "de-DE")
    await expect(starters).to_have_text([ASKED["en"]])
    await expect(starters).to_have_attribute("lang", "en")


async def test_a_document_without_headings_is_asked_about_in_its_language(
    starters_of: Callable[..., Awaitable[Any]],
) -> None:
    starters = await starters_of(["# Preise\n\nDer Eintritt ist für Kinder frei und kostet sonst nicht viel."])
    await expect(starters).to_have_text(["Was steht in „Preise“?"])


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("Öffnungszeiten: Montag bis Freitag 9 bis 17 Uhr. Samstag geschlossen. Eintritt 5 Euro, Kinder frei.", "de"),
        ("Em caso de alarme, todos saem do edifício, e não é permitido correr com os cavalos.", None),
        ("In caso di allarme tutti lasciano l'edificio, e la direzione controlla la lista con il responsabile.", None),
        ("Ved brandalarm forlader alle bygningen, og det er ikke tilladt at løbe med hestene.", None),
        ("| 1 | 2 |", None),
        ("", None),
    ],
)
async def test_a_language_is_told_only_if_it_is_sure(visit: Any, text: str, language: str | None) -> None:
    script = "async (text) => (await import('/web/conversation/document_language.js')).languageOf(text)"
    assert await visit.page.evaluate(script, text) == language
