"""Signing in at a real OpenID provider: who one is then, what one may do, for how long, and how it ends."""

from __future__ import annotations

import asyncio
import json
import time
from typing import Any
from urllib.parse import parse_qs, quote, urlsplit

import pytest

from rag_service.access.api_keys import ApiKeys
from tests.rag_service.access.oidc.conftest import ADDRESS, CALLBACK, TENANT, Browser, MakeService
from tests.support.api_keys import add_key
from tests.support.peers.openid_provider import CLIENT_ID, OpenIdProvider
from workers.broker import keys

OWN_PAGE = {"Sec-Fetch-Site": "same-origin"}


def records(browser: Browser) -> ApiKeys:
    api_keys: ApiKeys = browser.client.pipeline.api_keys  # type: ignore[attr-defined]
    return api_keys


def sent_on_exit(browser: Browser) -> dict[str, str]:
    return {**OWN_PAGE, "Cookie": f"rag-sign-in-8080={browser.cookies['rag-sign-in-8080']}"}


async def test_a_person_of_the_provider_is_signed_in(browser: Browser) -> None:
    assert (await browser.who())["provider"] == "Example SSO", "the page offers it"
    assert await browser.sign_in() == f"{ADDRESS}/"
    who = await browser.who()
    (record,) = records(browser).list()
    assert who == {
        "tenant": TENANT,
        "person": record.person,
        "role": "editor",
        "collections": None,
        "key": record.id,
        "key_name": "Ann Example",
        "provider": "Example SSO",
        "keeps_originals": False,
    }
    assert record.person.startswith("oidc-")
    assert list(browser.cookies) == ["rag-sign-in-8080"], "that of the attempt is gone"
    assert (await browser.get("/v1/collections")).json() == {"collections": []}


async def test_the_request_to_the_provider(browser: Browser, provider: OpenIdProvider) -> None:
    response = await browser.get("/sign-in/oidc")
    query = {name: value[0] for name, value in parse_qs(urlsplit(response.headers["location"]).query).items()}
    secrets = [query.pop(name) for name in ("state", "nonce", "code_challenge")]
    assert query == {
        "tenant": "1",  # the endpoint's own
        "response_type": "code",
        "client_id": CLIENT_ID,
        "redirect_uri": CALLBACK,
        "scope": "openid profile email",
        "code_challenge_method": "S256",
    }
    assert len({*secrets}) == 3
    assert all(len(secret) == 43 for secret in secrets)
    cookie = response.headers["set-cookie"].lower()
    assert cookie.startswith("rag-oidc-8080=")
    assert "httponly" in cookie
    assert "samesite=lax" in cookie
    assert "max-age=600" in cookie
    assert "; secure" not in cookie
    assert not any(secret.lower() in cookie for secret in secrets)
    assert response.headers["cache-control"] == "no-store"


async def test_the_cookie_is_that_of_a_key_and_lasts_as_long_as_set(service: MakeService) -> None:
    async with service(hours=2) as client:
        browser = Browser(client)
        back = await browser.at_provider(await browser.begin(), "ann")
        response = await browser.get(back.removeprefix(ADDRESS))
        (cookie,) = [one for one in response.headers.get_list("set-cookie") if one.startswith("rag-sign-in-8080=")]
        assert {part.strip().lower() for part in cookie.split(";")[1:]} == {
            "httponly",
            "max-age=7200",
            "path=/",
            "samesite=strict",
        }
        (record,) = records(browser).list()
        assert record.expires is not None
        assert 7100 < record.expires - time.time() <= 7200
        redis = client.pipeline.redis  # type: ignore[attr-defined]
        (name,) = redis.keys(f"rag:{TENANT}:sign_in:*")
        assert 7100 < redis.ttl(name) <= 7200


async def test_a_person_is_the_same_one_again_and_nobody_else(browser: Browser, provider: OpenIdProvider) -> None:
    other, bob = Browser(browser.client), Browser(browser.client)
    await browser.sign_in()
    provider.people["ann"]["name"] = "Ann Married"
    await other.sign_in()
    await bob.sign_in("bob")
    ann, again, reader = await browser.who(), await other.who(), await bob.who()
    assert ann["person"] == again["person"] != reader["person"]
    assert (again["key_name"], reader["key_name"], reader["role"]) == ("Ann Married", "bob", "reader")
    assert len({ann["key"], again["key"], reader["key"]}) == 3
    forbidden = await bob.client.post("/v1/collections", json={"name": "x"}, headers=sent_on_exit(bob))
    assert forbidden.status_code == 403


async def test_signing_out_ends_it(browser: Browser) -> None:
    await browser.sign_in()
    headers = sent_on_exit(browser)
    assert (await browser.client.delete("/v1/sign-in", headers=headers)).status_code == 204
    assert (await browser.who())["code"] == "signed_out"
    assert records(browser).list() == []


async def test_an_admin_lists_and_revokes_it(browser: Browser) -> None:
    await browser.sign_in()
    who = await browser.who()
    _, key = add_key(records(browser), "boss", TENANT, person="boss", role="admin")
    admin = {"Authorization": f"Bearer {key}"}
    listed = (await browser.client.get("/v1/keys", headers=admin)).json()["keys"]
    (shown,) = [one for one in listed if one["id"] == who["key"]]
    assert (shown["name"], shown["issuer"]) == (
        "Ann Example",
        browser.client.pipeline.settings.oidc.issuer,  # type: ignore[attr-defined]
    )
    assert shown["expires"] > time.time()
    assert (await browser.client.delete(f"/v1/keys/{who['key']}", headers=admin)).status_code == 204
    assert (await browser.who())["code"] == "signed_out"


async def test_no_admin_creates_a_key_for_a_person_of_the_provider(browser: Browser) -> None:
    """Neither before nor after the person's first session: it would open their chats."""
    await browser.sign_in()
    person = (await browser.who())["person"]
    _, key = add_key(records(browser), "boss", TENANT, person="boss", role="admin")
    body = {"name": "spy", "person": person}
    response = await browser.client.post("/v1/keys", json=body, headers={"Authorization": f"Bearer {key}"})
    assert (response.status_code, response.json()["code"]) == (403, "forbidden")


async def test_it_ends_when_its_time_is_over(browser: Browser) -> None:
    await browser.sign_in()
    redis = browser.client.pipeline.redis  # type: ignore[attr-defined]
    (record,) = records(browser).list()
    fields = json.loads(redis.hget(keys.API_KEYS, record.id))
    redis.hset(keys.API_KEYS, record.id, json.dumps({**fields, "expires": time.time() - 1}))
    assert (await browser.who())["code"] == "signed_out"
    assert records(browser).list() == []
    assert records(browser).get(record.id) is None
    await Browser(browser.client).sign_in()
    assert redis.hlen(keys.API_KEYS) == 1, "the old one is deleted"


async def test_the_audit_log_has_sign_ins_and_sign_outs(browser: Browser) -> None:
    await browser.sign_in()
    who = await browser.who()
    await browser.client.delete("/v1/sign-in", headers=sent_on_exit(browser))
    page = browser.client.pipeline.audit.entries(TENANT, 1)  # type: ignore[attr-defined]
    entries = [(entry.action, entry.person, entry.key, entry.key_id, entry.name) for entry in page]
    key = who["key"]
    assert entries == [
        ("person.sign_out", who["person"], key, key, None),
        ("person.sign_in", who["person"], key, key, "Ann Example"),
    ]


@pytest.mark.parametrize(
    ("endpoint", "led_to"),
    [
        ("https://sso.example.org/out?realm=1", f"https://sso.example.org/out?realm=1&client_id={quote(CLIENT_ID)}"),
        ("http://sso.example.org/out", "../../"),  # not safe
        (None, "../../"),
    ],
)
async def test_a_browser_is_led_to_the_sign_out_of_the_provider(
    browser: Browser, provider: OpenIdProvider, endpoint: str | None, led_to: str
) -> None:
    provider.metadata["end_session_endpoint"] = endpoint
    response = await browser.get("/sign-in/oidc/sign-out")
    assert (response.status_code, response.headers["location"]) == (303, led_to)


async def test_a_provider_that_is_gone_signs_nobody_out(browser: Browser, provider: OpenIdProvider) -> None:
    provider.metadata["issuer"] = "https://another.example.org"
    response = await browser.get("/sign-in/oidc/sign-out")
    assert response.headers["location"] == "../../#sign-in=unreachable"


async def test_nothing_is_asked_of_the_provider_before_somebody_signs_in_and_little_after(
    browser: Browser, provider: OpenIdProvider
) -> None:
    await browser.get("/")
    await browser.who()
    assert provider.asked == []
    await browser.sign_in()
    await Browser(browser.client).sign_in("ann")
    discovery = ["/.well-known/openid-configuration", "/keys"]
    assert provider.asked == [*discovery, *(["/authorize", "/token"] * 2)]


async def test_a_new_key_of_the_provider_is_read_at_once(browser: Browser, provider: OpenIdProvider) -> None:
    await browser.begin()
    provider.key = type(provider.key).generate_key(2048, {"kid": "second", "use": "sig"})
    assert await browser.sign_in() == f"{ADDRESS}/"
    assert provider.asked.count("/keys") == 2


async def test_behind_a_proxy_the_public_address_counts(service: MakeService, provider: OpenIdProvider) -> None:
    """The proxy tells neither its scheme nor its path."""
    public = "https://rag.example.org/rag"
    provider.client.redirect_uris[:] = [f"{public}/sign-in/oidc/callback"]
    async with service(public_url=f"{public}/") as client:
        browser = Browser(client)
        response = await browser.get("/sign-in/oidc")
        assert "; Secure" in response.headers["set-cookie"]
        back = await browser.at_provider(response.headers["location"], "ann")
        assert back.startswith(f"{public}/sign-in/oidc/callback?")
        response = await browser.get(back.removeprefix(public))
        assert response.headers["location"] == "../../", "also below the path"
        assert all("; Secure" in one for one in response.headers.get_list("set-cookie"))
        assert (await browser.who())["role"] == "editor"


@pytest.mark.parametrize("methods", [["client_secret_post"], None])
async def test_the_client_authenticates_as_the_provider_wants(
    browser: Browser, provider: OpenIdProvider, methods: list[str] | None
) -> None:
    provider.metadata["token_endpoint_auth_methods_supported"] = methods
    assert await browser.sign_in() == f"{ADDRESS}/"


async def test_without_a_provider_there_is_nothing(world: Any, make_client: Any) -> None:
    async with make_client(world.redis_url, world.data_dir, open_without_key=False) as client:
        for path in ("/sign-in/oidc", "/sign-in/oidc/callback?code=x&state=y"):
            response = await client.get(path)
            assert (response.status_code, response.json()["code"]) == (404, "not_found")
        assert "provider" not in (await client.get("/v1/sign-in")).json()


async def test_two_at_once_do_not_mix(browser: Browser) -> None:
    other = Browser(browser.client)
    await asyncio.gather(browser.sign_in("ann"), other.sign_in("bob"))
    assert [(await one.who())["key_name"] for one in (browser, other)] == ["Ann Example", "bob"]
