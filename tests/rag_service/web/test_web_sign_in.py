"""Signing in at an OpenID provider, from the button on the page to the page again."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any

import pytest
from playwright.async_api import expect

from rag_service.access.api_keys import ApiKeys
from tests.rag_service.web.conftest import BACKUPS
from tests.rag_service.web.test_web_accessible import DEVICES, violations
from tests.support.peers.openid_provider import CLIENT_ID, SECRET, OpenIdProvider, openid_provider
from workers.broker.app import make_redis

pytestmark = pytest.mark.asyncio(loop_scope="session")
BUTTON = "Sign in with Example SSO"


@pytest.fixture
def provider() -> Iterator[OpenIdProvider]:
    with openid_provider() as provider:
        provider.people = {"ann": {"name": "Ann Example", "groups": ["staff"]}, "eve": {"groups": []}}
        yield provider


@pytest.fixture
def address(scene: Any, provider: OpenIdProvider, serve: Callable[..., AbstractContextManager[str]]) -> Iterator[str]:
    """An API with that provider."""
    settings = {
        "issuer": provider.issuer,
        "client_id": CLIENT_ID,
        "client_secret": SECRET,
        "name": "Example SSO",
        "roles": {"staff": "editor"},
    }
    with serve(scene, open_without_key=False, oidc=settings) as url:
        provider.client.redirect_uris.append(f"{url}/sign-in/oidc/callback")
        yield url
    client = make_redis(scene.redis_url)
    keys = ApiKeys(client)
    for record in keys.list():
        keys.revoke(record.id)
    client.close()


def only_of_the_provider(visit: Any, provider: OpenIdProvider) -> None:
    """Nothing went wrong, and the page asked nobody else."""
    assert [one for one in visit.complaints if not one.startswith(provider.issuer)] == []
    assert any(one.startswith(f"{provider.issuer}/authorize") for one in visit.complaints)
    visit.complaints.clear()


async def test_the_button_leads_to_the_provider_and_back(
    new_visit: Any, provider: OpenIdProvider, address: str
) -> None:
    visit = await new_visit(url=address, meant=401)
    page = visit.page
    dialog = page.get_by_role("dialog", name="Sign in")
    await expect(dialog).to_contain_text("Sign in with Example SSO, or enter an API key.")
    await expect(dialog.get_by_label("API key")).to_be_visible()
    await dialog.get_by_role("button", name=BUTTON).click()
    await page.get_by_role("button", name="ann").click()
    await page.get_by_role("combobox", name="Collection").select_option("handbook")
    assert page.url.partition("#")[0] == f"{address}/"
    await visit.ask(BACKUPS)
    await visit.answered()
    conversation = page.url
    assert conversation != f"{address}/"
    await page.get_by_role("button", name="Account").click()
    account = page.get_by_role("dialog", name="Account")
    await expect(account).to_contain_text("You are Ann Example, signed in with Example SSO.")
    await page.keyboard.press("Escape")
    await page.context.clear_cookies()
    await page.reload()
    await dialog.get_by_role("button", name=BUTTON).click()
    await page.get_by_role("button", name="ann").click()
    await visit.answered()
    assert page.url == conversation, "the conversation that was open"
    await page.get_by_role("button", name="Account").click()
    await account.get_by_role("button", name="Sign out", exact=True).click()
    await expect(dialog).to_be_visible()
    await dialog.get_by_role("button", name=BUTTON).click()
    await page.get_by_role("button", name="ann").click()
    await page.get_by_role("button", name="Account").click()
    await account.get_by_role("button", name="Sign out here and at Example SSO").click()
    await expect(page.get_by_text("is out")).to_be_visible()
    await page.goto(address)
    await expect(dialog).to_be_visible()
    only_of_the_provider(visit, provider)


async def test_the_page_says_why_nobody_is_signed_in(new_visit: Any, provider: OpenIdProvider, address: str) -> None:
    visit = await new_visit(url=address, meant=401)
    page = visit.page
    dialog = page.get_by_role("dialog", name="Sign in")
    await dialog.get_by_role("button", name=BUTTON).click()
    await page.get_by_role("button", name="eve").click()
    await expect(dialog).to_contain_text("You are signed in at Example SSO, but none of your groups there may use")
    assert page.url == f"{address}/"
    await page.reload()
    await expect(dialog).to_contain_text("Sign in with Example SSO, or enter an API key.")
    only_of_the_provider(visit, provider)


@pytest.mark.parametrize("device", DEVICES)
async def test_axe_finds_nothing_in_the_dialog(new_visit: Any, scene: Any, address: str, device: str) -> None:
    page = (await new_visit("/#sign-in=not_admitted", url=address, meant=401, **DEVICES[device])).page
    await expect(page.get_by_role("dialog", name="Sign in")).to_contain_text("none of your groups")
    assert await violations(page) == []
    assert await page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
