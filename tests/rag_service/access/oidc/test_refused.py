"""What signs nobody in: forged, replayed and foreign replies, and people without a role."""

from __future__ import annotations

import base64
import hmac
import json
import logging
import time
from collections.abc import Callable
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

import pytest
from joserfc.jwk import RSAKey

from rag_service.access.oidc.attempt import LIFETIME_S, Attempt
from tests.rag_service.access.oidc.conftest import ADDRESS, TENANT, Browser, MakeService
from tests.support.peers.openid_provider import CLIENT_ID, SECRET, Claims, OpenIdProvider

ELSEWHERE = "http://127.0.0.1:9"


async def refused(browser: Browser, back: str, reason: str) -> None:
    """Coming back to this address signs nobody in."""
    assert await browser.come_back(back) == f"{ADDRESS}/#sign-in={reason}"
    assert "rag-sign-in-8080" not in browser.cookies
    assert (await browser.who())["code"] == "key_required"
    assert browser.client.pipeline.api_keys.list() == []  # type: ignore[attr-defined]
    assert not list(browser.client.pipeline.audit.entries(TENANT, 1))  # type: ignore[attr-defined]


async def back_of(browser: Browser, person: str | None = "ann") -> str:
    return await browser.at_provider(await browser.begin(), person)


def with_query(url: str, **changes: str | None) -> str:
    query = {**dict(parse_qsl(urlsplit(url).query)), **changes}
    return f"{url.partition('?')[0]}?{urlencode({name: value for name, value in query.items() if value is not None})}"


async def test_a_callback_without_the_browsers_own_cookie(browser: Browser) -> None:
    """Login CSRF: a page makes a browser come back with the code of somebody else's sign-in."""
    back = await back_of(browser)
    await refused(Browser(browser.client), back, "not_begun_here")


async def test_a_callback_with_the_cookie_of_another_attempt(browser: Browser) -> None:
    back = await back_of(browser)
    victim = Browser(browser.client)
    await victim.begin()
    await refused(victim, back, "not_begun_here")


@pytest.mark.parametrize("state", [None, "", "x", "ü\ud800".encode("utf-8", "replace").decode(), "A" * 43])
async def test_another_state(browser: Browser, state: str | None) -> None:
    await refused(browser, with_query(await back_of(browser), state=state), "not_begun_here")


@pytest.mark.parametrize("cookie", ["", "x", "1.x", "١٢.AAAA", f"{'9' * 12}.{'A' * 43}"])
async def test_cookies_that_are_none(browser: Browser, cookie: str) -> None:
    back = await back_of(browser)
    browser.cookies["rag-oidc-8080"] = cookie.encode("ascii", "replace").decode()
    await refused(browser, back, "not_begun_here")


async def test_a_state_is_used_once(browser: Browser) -> None:
    back = await back_of(browser)
    cookies = dict(browser.cookies)
    assert await browser.come_back(back) == f"{ADDRESS}/"
    for again in (Browser(browser.client), Browser(browser.client, cookies)):
        address = await again.come_back(back)
        assert address.partition("#")[2] in ("sign-in=not_begun_here", "sign-in=refused")
        assert "rag-sign-in-8080" not in again.cookies


async def test_a_state_is_used_once_where_the_provider_takes_codes_twice(
    browser: Browser, provider: OpenIdProvider
) -> None:
    provider.keeps_codes = True
    back = await back_of(browser)
    cookies = dict(browser.cookies)
    assert await browser.come_back(back) == f"{ADDRESS}/"
    again = Browser(browser.client, cookies)
    assert await again.come_back(back) == f"{ADDRESS}/#sign-in=not_begun_here"
    assert "rag-sign-in-8080" not in again.cookies


async def test_an_attempt_ends_after_ten_minutes(browser: Browser, monkeypatch: pytest.MonkeyPatch) -> None:
    old = Attempt(int(time.time()) - LIFETIME_S - 1, "A" * 43)
    with monkeypatch.context() as patch:
        patch.setattr(Attempt, "new", classmethod(lambda cls: old))
        back = await back_of(browser)
    assert browser.cookies["rag-oidc-8080"] == old.cookie
    fresh = Attempt(int(time.time()), old.secret)
    await refused(Browser(browser.client, {"rag-oidc-8080": fresh.cookie}), back, "not_begun_here")
    await refused(browser, back, "not_begun_here")


async def test_the_code_of_another_attempt(browser: Browser) -> None:
    """A stolen code is worth nothing: the provider wants its verifier (PKCE)."""
    stolen = dict(parse_qsl(urlsplit(await back_of(Browser(browser.client))).query))["code"]
    await refused(browser, with_query(await back_of(browser, "bob"), code=stolen), "refused")


FOREIGN = RSAKey.generate_key(2048, {"kid": "first", "use": "sig"})


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda provider, claims: {**claims, "iss": "https://evil.example"}, "invalid_reply"),
        (lambda provider, claims: {**claims, "aud": ["another-client"]}, "invalid_reply"),
        (lambda provider, claims: {**claims, "aud": [CLIENT_ID, "another-client"]}, "invalid_reply"),
        (lambda provider, claims: {**claims, "azp": "another-client"}, "invalid_reply"),
        (lambda provider, claims: {**claims, "nonce": "A" * 43}, "invalid_reply"),
        (lambda provider, claims: {**claims, "nonce": 3}, "invalid_reply"),
        (lambda provider, claims: {name: value for name, value in claims.items() if name != "nonce"}, "invalid_reply"),
        (lambda provider, claims: {name: value for name, value in claims.items() if name != "sub"}, "invalid_reply"),
        (lambda provider, claims: {name: value for name, value in claims.items() if name != "exp"}, "invalid_reply"),
        (lambda provider, claims: {**claims, "sub": 7}, "invalid_reply"),
        (lambda provider, claims: {**claims, "exp": int(time.time()) - 120}, "clocks_differ"),
        (lambda provider, claims: {**claims, "iat": int(time.time()) + 600}, "clocks_differ"),
        (lambda provider, claims: {**claims, "nbf": int(time.time()) + 600}, "clocks_differ"),
        (lambda provider, claims: unsigned(claims), "invalid_reply"),
        (lambda provider, claims: provider.signed(claims, FOREIGN), "invalid_reply"),
        (lambda provider, claims: provider.signed(claims, FOREIGN, kid="unknown"), "invalid_reply"),
        (lambda provider, claims: by_secret(provider, claims, SECRET.encode()), "invalid_reply"),
        (lambda provider, claims: by_secret(provider, claims, provider.key.as_pem(private=False)), "invalid_reply"),
        (lambda provider, claims: provider.signed(claims)[:-4], "invalid_reply"),
        (lambda provider, claims: "no token", "invalid_reply"),
        (lambda provider, claims: provider.signed(claims, alg="PS256"), None),
    ],
    ids=[
        "another issuer", "another client", "and another client", "for another party", "another nonce", "odd nonce",
        "no nonce", "no subject", "no end", "odd subject", "expired", "issued later", "not yet valid", "alg none",
        "another key", "an unknown key", "HS256 by the secret", "HS256 by the public key", "cut", "no token",
        "another signature is fine",
    ],
)  # fmt: skip
async def test_id_tokens(
    browser: Browser, provider: OpenIdProvider, change: Callable[[OpenIdProvider, Claims], Any], reason: str | None
) -> None:
    back = await back_of(browser)
    provider.change = lambda claims: change(provider, claims)
    if reason is None:
        assert await browser.come_back(back) == f"{ADDRESS}/"
    else:
        await refused(browser, back, reason)


def unsigned(claims: Claims) -> str:
    import jwt

    return jwt.encode(claims, None, algorithm="none", headers={"kid": "first"})


def by_secret(provider: OpenIdProvider, claims: Claims, secret: bytes) -> str:
    """As for a service that takes whatever it has for the key of the algorithm in the token."""
    parts = ({"alg": "HS256", "kid": provider.key.kid}, claims)
    text = b".".join(base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=") for part in parts)
    return b".".join((text, base64.urlsafe_b64encode(hmac.digest(secret, text, "sha256")).rstrip(b"="))).decode()


async def test_an_id_token_a_little_off_in_time_is_fine(browser: Browser, provider: OpenIdProvider) -> None:
    now = int(time.time())
    provider.change = lambda claims: {**claims, "iat": now + 30, "exp": now - 30}
    assert await browser.sign_in() == f"{ADDRESS}/"


@pytest.mark.parametrize(("iss", "required"), [("https://evil.example", False), (None, True), ("", True)])
async def test_mixed_up_issuers(browser: Browser, provider: OpenIdProvider, iss: str | None, required: bool) -> None:
    """RFC 9207: a provider that names itself on the way back is named so."""
    provider.metadata["authorization_response_iss_parameter_supported"] = required
    back = await back_of(browser)
    await refused(browser, with_query(back, iss=iss), "invalid_reply")
    back = await back_of(browser)
    assert await browser.come_back(with_query(back, iss=provider.issuer)) == f"{ADDRESS}/"


@pytest.mark.parametrize(
    ("metadata", "reason"),
    [
        ({"issuer": "https://evil.example"}, "invalid_reply"),
        ({"issuer": None}, "invalid_reply"),
        ({"token_endpoint": "http://evil.example/token"}, "invalid_reply"),
        ({"jwks_uri": None}, "invalid_reply"),
        ({"authorization_endpoint": "javascript:alert(1)"}, "invalid_reply"),
        ({"jwks_uri": f"{ELSEWHERE}/keys"}, "unreachable"),
    ],
    ids=str,
)
async def test_metadata_that_is_not_that_of_the_issuer(
    browser: Browser, provider: OpenIdProvider, metadata: dict[str, Any], reason: str
) -> None:
    provider.metadata.update(metadata)
    response = await browser.get("/sign-in/oidc")
    assert response.headers["location"] == f"../#sign-in={reason}"
    assert browser.cookies == {}
    provider.metadata.clear()
    assert await browser.sign_in() == f"{ADDRESS}/", "it is read again"


async def test_a_provider_that_is_not_there(service: MakeService, caplog: pytest.LogCaptureFixture) -> None:
    async with service(issuer=ELSEWHERE) as client:
        response = await Browser(client).get("/sign-in/oidc")
    assert response.headers["location"] == "../#sign-in=unreachable"
    assert f"the provider does not answer at {ELSEWHERE}/.well-known/openid-configuration" in caplog.text


@pytest.mark.parametrize(
    ("settings", "advice"),
    [
        ({"client_secret": "wrong"}, "check RAG_OIDC__CLIENT_ID and RAG_OIDC__CLIENT_SECRET"),
        ({"client_secret": None}, "check RAG_OIDC__CLIENT_ID and RAG_OIDC__CLIENT_SECRET"),
    ],
)
async def test_a_wrong_secret(
    service: MakeService, caplog: pytest.LogCaptureFixture, settings: dict[str, Any], advice: str
) -> None:
    async with service(**settings) as client:
        browser = Browser(client)
        await refused(browser, await back_of(browser), "refused")
    assert advice in caplog.text
    assert SECRET not in caplog.text


async def test_a_redirect_address_that_changes_on_the_way(
    service: MakeService, browser: Browser, provider: OpenIdProvider, caplog: pytest.LogCaptureFixture
) -> None:
    """As when a proxy's scheme is told for one of two requests."""
    back = await back_of(browser)
    async with service(public_url="http://127.0.0.1:8080/other") as client:
        await refused(Browser(client, browser.cookies), back, "refused")
    assert "set RAG_OIDC__PUBLIC_URL" in caplog.text


@pytest.mark.parametrize(
    ("error", "reason"),
    [("access_denied", "cancelled"), ("server_error", "unreachable"), ("invalid_scope", "refused"), ("", "refused")],
)
async def test_what_the_provider_says_instead_of_a_code(browser: Browser, error: str, reason: str) -> None:
    back = with_query(await back_of(browser), code=None, error=error)
    await refused(browser, back, reason)


async def test_a_person_who_says_no(browser: Browser) -> None:
    back = await back_of(browser, None)
    assert "error=access_denied" in back
    await refused(browser, back, "cancelled")


async def test_a_person_in_no_group(browser: Browser, caplog: pytest.LogCaptureFixture) -> None:
    await refused(browser, await back_of(browser, "eve"), "not_admitted")
    assert "is in no group of RAG_OIDC__ROLES; the claim 'groups' has 'guests'" in caplog.text


async def test_user_info_of_another_person(browser: Browser, provider: OpenIdProvider) -> None:
    provider.told = {"bob": {"sub": "ann", "groups": ["rag-admins"], "name": "Ann"}}
    await refused(browser, await back_of(browser, "bob"), "invalid_reply")


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
async def test_another_site_signs_nobody_in_unasked(browser: Browser, provider: OpenIdProvider, site: str) -> None:
    response = await browser.get("/sign-in/oidc", **{"Sec-Fetch-Site": site})
    assert (response.status_code, response.headers["location"]) == (303, "../")
    assert browser.cookies == {}
    assert provider.asked == []


@pytest.mark.parametrize("name", ["next", "redirect_uri", "return_to", "url", "post_login"])
async def test_no_address_in_a_request_leads_anywhere(browser: Browser, name: str) -> None:
    """Open redirects: neither the way there nor the way back takes an address."""
    extra = f"{name}=https%3A%2F%2Fevil.example"
    response = await browser.get(f"/sign-in/oidc?{extra}")
    assert "evil.example" not in response.headers["location"]
    back = await browser.at_provider(response.headers["location"], "ann")
    assert await browser.come_back(f"{back}&{extra}") == f"{ADDRESS}/"


async def test_a_foreign_host_name_is_refused(browser: Browser) -> None:
    response = await browser.get("/sign-in/oidc", Host="evil.example")
    assert (response.status_code, response.json()["code"]) == (421, "unknown_host")


async def test_the_log_has_no_secrets(browser: Browser, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    back = await back_of(browser, "eve")
    query, cookie = dict(parse_qsl(urlsplit(back).query)), browser.cookies["rag-oidc-8080"]
    await refused(browser, back, "not_admitted")
    own = "".join(record.getMessage() for record in caplog.records if record.name.startswith("rag_service"))
    assert own
    for secret in (query["code"], query["state"], cookie, SECRET):
        assert secret not in own
