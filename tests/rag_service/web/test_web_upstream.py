"""The page with a model server: its meter has tokens and time, and there is no plain decoding to compare with."""

from __future__ import annotations

import re
from typing import Any

import pytest
from playwright.async_api import expect

from rag_service.answering import answers
from tests.rag_service.web.conftest import BACKUPS

pytestmark = pytest.mark.asyncio(loop_scope="session")
SERVER: dict[str, Any] = {
    "engine": "openai",
    "upstream": {"url": "http://127.0.0.1:1/v1", "model": "big", "server": "llama.cpp"},
}


async def test_the_meter_shows_tokens_and_time_of_a_model_server(
    new_visit: Any, scene: Any, serve: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    finished = answers._finished

    def of_a_server(*args: Any) -> dict[str, Any]:
        told = {"engine": "upstream", "upstream": "default", "model": "big", "usage": "reported"}
        return {**finished(*args), "speculation": told}

    monkeypatch.setattr(answers, "_finished", of_a_server)
    with serve(scene, **SERVER) as url:
        visit = await new_visit(url=url)
        await visit.page.get_by_role("combobox", name="Collection").select_option("handbook")
        await expect(visit.page.locator("#model")).to_have_text("Model: big")
        await visit.ask(BACKUPS)
        turn = await visit.answered()
        told = await turn.locator(".meter-text").inner_text()
        assert re.fullmatch(r"\d+ tokens · [\d.]+ m?s", told), told
        await expect(turn.locator(".meter-bar")).to_be_hidden()
        await turn.locator(".meter summary").click()
        await expect(turn.locator(".meter")).to_contain_text("big at default")
        await expect(turn.get_by_text("Compare the next answers")).to_be_hidden()
        await expect(turn.locator(".meter")).not_to_contain_text("passes")
