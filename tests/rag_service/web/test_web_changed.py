"""A document changes in the middle of a conversation: the page marks what rests on its old text."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from playwright.async_api import expect

from retriever import SourceDocument
from tests.rag_service.web.conftest import BACKUPS, DOCUMENTS, FOLLOW_UP

pytestmark = [
    pytest.mark.asyncio(loop_scope="session"),
    pytest.mark.decoder_only("what the page marks does not depend on the engine"),
]


@pytest.fixture
def retention(scene: Any) -> Iterator[Any]:
    """Replaces a sentence of the data retention policy."""
    (path,) = [path for path in DOCUMENTS if "kept for 35 days" in path.read_text(encoding="utf-8")]
    kept = path.read_text(encoding="utf-8")

    def put(text: str) -> None:
        changed = SourceDocument(name=path.name, document_id=path.name, text=text)
        scene.library.collection("handbook").ingest([changed])

    yield lambda old, new: put(kept.replace(old, new))
    put(kept)


async def test_an_answer_whose_source_has_changed_says_so(visit: Any, retention: Any) -> None:
    await visit.ask(BACKUPS)
    await visit.answered()
    outdated = visit.turn(0).get_by_text("A source of this answer was changed or deleted since.")
    await expect(outdated).to_have_count(0)
    retention("kept for 35 days", "kept for 70 days")
    await visit.ask(FOLLOW_UP)
    second = await visit.answered()
    await expect(second.get_by_text("since documents have changed: 1 earlier answer.")).to_be_visible()
    await expect(outdated).to_be_visible()

    await visit.page.reload()
    await visit.answered()
    await expect(outdated).to_be_visible()
    await visit.turn(0).get_by_role("button", name="passages").click()
    await expect(visit.page.get_by_text("changed or deleted since").first).to_be_visible()
