"""What the service says in English, the page says in German and Dutch: errors, and why a file was refused."""

from __future__ import annotations

import ast
import json
import re
from http import HTTPStatus
from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import expect

import rag_service
import retriever

browsed = pytest.mark.asyncio(loop_scope="session")
one_engine = pytest.mark.decoder_only("texts do not depend on the engine")

WEB = Path(rag_service.__file__).parent / "web"
OF_OTHER_PYTHONS = {
    *("Request Entity Too Large", "Unprocessable Entity"),  # up to 3.12
    *("Content Too Large", "Unprocessable Content"),
}
"""Phrases of statuses that go by the version of Python."""
PART = re.compile(r"\{\w*\}")


def said() -> dict[str, list[str]]:
    """The page's translations, German and Dutch, by the English text."""
    source = (WEB / "texts" / "service.js").read_text(encoding="utf-8")
    source = source[source.index("export default") :].removeprefix("export default").strip().removesuffix(";")
    found: dict[str, list[str]] = json.loads(re.sub(r",(\s*\})$", r"\1", source))
    return found


def sentences() -> set[str]:
    """All texts in the code, each part that is filled in as {}."""
    found = {HTTPStatus(status).phrase for status in HTTPStatus} | OF_OTHER_PYTHONS
    for package in (rag_service, retriever):
        for path in Path(str(package.__file__)).parent.rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(node, ast.Constant) and isinstance(node.value, str):
                    found.add(node.value)
                elif isinstance(node, ast.JoinedStr):
                    parts = (str(one.value) if isinstance(one, ast.Constant) else "{}" for one in node.values)
                    found.add("".join(parts))
    return found


def test_the_code_still_says_each_of_these_texts() -> None:
    texts = {text: PART.sub("{}", text) for text in said()}
    assert {text for text, plain in texts.items() if plain not in sentences()} == set()


@pytest.mark.parametrize("number", [0, 1])
def test_translations_have_no_other_parts_than_the_text(number: int) -> None:
    for text, translations in said().items():
        assert len(translations) == 2
        assert set(PART.findall(translations[number])) <= set(PART.findall(text))
        assert translations[number].strip() == translations[number] != ""


@browsed
@one_engine
@pytest.mark.parametrize(
    ("locale", "reasons"),
    [
        (
            "de-DE",
            [
                "Die Datei ist leer",
                "Das PDF ist beschädigt und lässt sich nicht öffnen; exportieren Sie es neu",
                ".doc wird nicht unterstützt; speichern Sie die Datei als .docx",
            ],
        ),
        (
            "nl-NL",
            [
                "Het bestand is leeg",
                "De pdf is beschadigd en kan niet worden geopend; exporteer hem opnieuw",
                ".doc wordt niet ondersteund; sla het bestand op als .docx",
            ],
        ),
    ],
)
async def test_refused_files_tell_why_in_the_pages_language(
    new_visit: Any, scene: Any, tmp_path: Path, locale: str, reasons: list[str]
) -> None:
    files = {"empty.md": b" ", "broken.pdf": b"%PDF-1.7 nothing", "letter.doc": b"old"}
    for name, content in files.items():
        (tmp_path / name).write_bytes(content)
    page = (await new_visit(locale=locale)).page
    await page.locator("#documents-button, button:has-text('Dokumente'), button:has-text('Documenten')").first.click()
    await page.locator("#files").set_input_files([tmp_path / name for name in files])
    for reason in reasons:
        await expect(page.get_by_text(reason)).to_be_visible(timeout=60_000)


@browsed
@one_engine
async def test_errors_are_told_in_the_pages_language(new_visit: Any, scene: Any) -> None:
    page = (await new_visit(locale="nl-NL", meant=404)).page
    title, detail = await page.evaluate(
        """async () => {
            const { json } = await import("/web/api.js");
            const problem = await json("GET", "v1/sessions/missing").catch((error) => error);
            return [problem.title, problem.detail];
        }"""
    )
    assert title == "Niet gevonden"
    assert detail == "Het gesprek 'missing' is er niet. Het werd gewist, is verlopen, of bestond nooit."
    own = "Dit is geen vaste tekst."
    assert await page.evaluate("async (text) => (await import('/web/language.js')).said(text)", own) == own
