"""Signed in by a cookie: another tab, signing out, and the keys that an admin hands out."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any

import httpx
import pytest
from playwright.async_api import expect

from rag_service.access.api_keys import ApiKeys
from tests.rag_service.web.conftest import BACKUPS
from tests.rag_service.web.test_web_accessible import DEVICES, violations
from tests.support.api_keys import add_key
from workers.broker.app import make_redis

pytestmark = pytest.mark.asyncio(loop_scope="session")

FILL = """all => all.map((one) => { one.value = one.placeholder; return one.value; })"""
"""Puts what a field says while it is empty into it, so that it has a width."""


@pytest.fixture
def admin_address(scene: Any, serve: Callable[..., AbstractContextManager[str]]) -> Iterator[tuple[str, str]]:
    """An API that wants keys, and that of an admin."""
    client = make_redis(scene.redis_url)
    keys = ApiKeys(client)
    _, key = add_key(keys, "the boss", "default", person="ann", role="admin")
    with serve(scene, open_without_key=False) as url:
        yield url, key
    for record in keys.list():
        keys.revoke(record.id)
    client.close()


async def test_another_tab_needs_no_key_until_one_signs_out(
    new_visit: Any, scene: Any, keyed_address: tuple[str, str]
) -> None:
    url, key = keyed_address
    other = await new_visit(f"/#key={key}", url=url)
    first = other.page
    await first.get_by_role("combobox", name="Collection").select_option("handbook")
    visit = await new_visit(url=url)
    second = visit.page
    await second.get_by_role("combobox", name="Collection").select_option("handbook")
    await visit.ask(BACKUPS)
    await visit.answered()
    await second.get_by_role("button", name="Account").click()
    account = second.get_by_role("dialog", name="Account")
    await expect(account).to_contain_text("You are the-page, signed in with the key “the page”.")
    await expect(account).to_contain_text("Tenant default · editor · all collections")
    await expect(account.get_by_role("heading", name="Keys")).to_be_hidden()
    await account.get_by_role("button", name="Sign out").click()
    dialog = second.get_by_role("dialog", name="API key")
    await expect(dialog).to_contain_text("This service needs an API key")
    assert second.url == f"{url}/", "the conversation is not named any more"
    await first.get_by_role("button", name="History").click()
    await expect(first.get_by_role("dialog", name="API key")).to_be_visible()
    for one in (visit, other):
        assert [complaint for complaint in one.complaints if "401" not in complaint] == []
        one.complaints.clear()


async def test_an_admin_hands_out_a_key_and_revokes_it(
    new_visit: Any, scene: Any, admin_address: tuple[str, str]
) -> None:
    url, key = admin_address
    page = (await new_visit(f"/#key={key}", url=url)).page
    await page.get_by_role("button", name="Account").click()
    account = page.get_by_role("dialog", name="Account")
    listed = account.get_by_role("list", name="Keys")
    await expect(listed.get_by_role("listitem")).to_have_count(1)
    await expect(listed).to_contain_text("Your key")
    await account.get_by_label("Name").fill("Bob’s <phone>")
    await account.get_by_label("Person").fill("bob")
    await account.get_by_label("Role").select_option("reader")
    await account.get_by_label("Collections").fill("handbook, hostile")
    await account.get_by_role("button", name="Create key").click()
    created = account.get_by_label("shown only now")
    await expect(created).to_be_visible()
    await expect(created).to_be_in_viewport(ratio=1)
    await expect(created).to_be_focused()
    made = await created.input_value()
    headers = {"Authorization": f"Bearer {made}"}
    who = httpx.get(f"{url}/v1/sign-in", headers=headers).json()
    assert (who["person"], who["role"], who["collections"]) == ("bob", "reader", ["handbook", "hostile"])
    row = listed.get_by_role("listitem").filter(has_text="Bob’s <phone>")
    await expect(row).to_contain_text("bob · reader · handbook, hostile")
    await page.keyboard.press("Escape")
    await expect(page.locator("#account li")).to_have_count(0)  # the next list is a fresh one
    await page.get_by_role("button", name="Account").click()
    await expect(created).to_have_count(0)
    await row.get_by_role("button", name="Revoke").click()
    await row.get_by_role("button", name="Revoke").click()
    await expect(listed.get_by_role("listitem")).to_have_count(1)
    assert httpx.get(f"{url}/v1/sign-in", headers=headers).status_code == 401


async def test_a_reader_is_offered_nothing_that_they_may_not_do(
    new_visit: Any, scene: Any, admin_address: tuple[str, str]
) -> None:
    url, key = admin_address
    body = {"name": "ann", "person": "ann", "role": "reader"}
    made = httpx.post(f"{url}/v1/keys", json=body, headers={"Authorization": f"Bearer {key}"}).json()
    for own, shown in ((made["key"], 0), (key, 1)):
        page = (await new_visit(f"/#key={own}", url=url)).page
        await page.get_by_role("combobox", name="Collection").select_option("handbook")
        await page.get_by_role("button", name="Documents").click()
        dialog = page.get_by_role("dialog", name="Documents")
        await expect(dialog.get_by_role("button", name=re.compile("^Read ")).first).to_be_visible()
        for name in ("Create", "Rename this collection", "Delete this collection"):
            await expect(dialog.get_by_role("button", name=name)).to_have_count(shown)
        held = await dialog.get_by_role("button", name=re.compile("^Read ")).count()
        for name in ("Replace", "Remove"):
            await expect(dialog.get_by_role("button", name=re.compile(f"^{name} "))).to_have_count(shown * held)
        await expect(dialog.get_by_text("Choose files")).to_be_visible(visible=bool(shown))


@pytest.mark.parametrize(
    ("locale", "names"),
    [("en", "reader editor admin"), ("de", "Leser Bearbeiter Verwalter"), ("nl", "lezer redacteur beheerder")],
)
@pytest.mark.parametrize("width", [1280, 390])
async def test_a_keys_fields_are_read_whole(
    new_visit: Any, scene: Any, admin_address: tuple[str, str], locale: str, names: str, width: int
) -> None:
    """Placeholders and roles were cut at their fields' edges, and roles were English in every language."""
    url, key = admin_address
    page = (await new_visit(f"/#key={key}", url=url, locale=locale, viewport={"width": width, "height": 800})).page
    await page.locator("#open-account").click()
    form, role = page.locator("#account form"), page.locator("#key-role")
    await expect(page.locator("#account .document-list li")).to_have_count(1)
    cut = "all => all.filter((one) => one.scrollWidth > one.clientWidth).map((one) => one.placeholder)"
    assert await form.locator("input").evaluate_all(FILL)
    assert await form.locator("input").evaluate_all(cut) == []
    roles = ("reader", "editor", "admin")
    own = [name if name == role else f"{role} ({name})" for role, name in zip(roles, names.split(), strict=True)]
    assert await role.locator("option").all_inner_texts() == own
    widths = await role.evaluate(
        """(node) => {
            const probe = node.cloneNode(true);
            probe.removeAttribute("id");
            document.querySelector("#account").append(probe);
            return [probe.offsetWidth, node.offsetWidth];
        }"""
    )
    assert widths[0] <= widths[1], "the longest fits"
    about = set()
    for one in roles:
        await role.select_option(one)
        about.add(await page.locator("#key-role-about").inner_text())
    assert len(about) == 3
    await expect(page.locator("#account .place").first).to_contain_text(own[2])
    out = page.get_by_role("dialog").locator(".ways-out button").first
    assert await out.evaluate("node => getComputedStyle(node).borderColor") != "rgba(0, 0, 0, 0)", (
        "it looks like a button"
    )


async def test_what_is_wrong_with_a_key_is_said(new_visit: Any, scene: Any, admin_address: tuple[str, str]) -> None:
    url, key = admin_address
    visit = await new_visit(f"/#key={key}", url=url)
    await visit.page.get_by_role("button", name="Account").click()
    account = visit.page.get_by_role("dialog", name="Account")
    await account.get_by_label("Name").fill("x")
    await account.get_by_label("Person").fill("a b")
    await account.get_by_role("button", name="Create key").click()
    await expect(account.get_by_role("alert")).to_contain_text("person")
    assert [one for one in visit.complaints if "422" not in one] == []
    visit.complaints.clear()


@pytest.mark.parametrize("device", DEVICES)
async def test_axe_finds_nothing_in_the_account(
    new_visit: Any, scene: Any, admin_address: tuple[str, str], device: str
) -> None:
    url, key = admin_address
    page = (await new_visit(f"/#key={key}", url=url, **DEVICES[device])).page
    await page.get_by_role("button", name="Account").click()
    account = page.get_by_role("dialog", name="Account")
    await account.get_by_label("Name").fill("phone")
    await account.get_by_role("button", name="Create key").click()
    await expect(account.get_by_label("shown only now")).to_be_visible()
    assert await violations(page) == []
    assert await page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
    inside = "document.querySelector('#account').scrollWidth <= document.querySelector('#account').clientWidth"
    assert await page.evaluate(inside)
