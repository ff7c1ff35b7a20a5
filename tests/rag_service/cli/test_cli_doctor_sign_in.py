"""`rag doctor` at a real OpenID provider: whether people can sign in there, and what to do if not."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from joserfc.jwk import RSAKey

from rag_service.cli.stack import sign_in
from rag_service.cli.stack.model_servers import State
from rag_service.oidc_settings import Oidc
from tests.support.command_line import nowhere, rag
from tests.support.peers.openid_provider import CLIENT_ID, SECRET, OpenIdProvider, openid_provider

pytestmark = pytest.mark.usefixtures("own_folder")

PROVIDER, PKCE, SIGNATURES = "OpenID provider", "OpenID provider's PKCE", "OpenID provider's signatures"


@pytest.fixture
def provider() -> Iterator[OpenIdProvider]:
    with openid_provider() as provider:
        yield provider


def look(issuer: str | None, **more: Any) -> dict[str, State]:
    return dict(sign_in.states(Oidc(issuer=issuer, client_id=CLIENT_ID, default_role="reader", **more)))


def test_doctor_asks_the_provider_of_the_settings(monkeypatch: pytest.MonkeyPatch, provider: OpenIdProvider) -> None:
    monkeypatch.setenv("RAG_URL", nowhere())
    for name, value in {
        "ISSUER": provider.issuer, "CLIENT_ID": CLIENT_ID, "CLIENT_SECRET": SECRET, "DEFAULT_ROLE": "reader"
    }.items():  # fmt: skip
        monkeypatch.setenv(f"RAG_OIDC__{name}", value)
    shown = rag("doctor").stdout
    assert f"ok      {PROVIDER}: {provider.issuer} answers, with its endpoints and keys" in shown
    assert f"ok      {PKCE}: not stated" in shown
    assert f"ok      {SIGNATURES}: not stated; its keys are for RS256, " in shown
    assert SECRET not in shown
    assert provider.asked == ["/.well-known/openid-configuration", "/keys"], "it signs nobody in"
    monkeypatch.setenv("RAG_OIDC__ISSUER", f"{provider.issuer}/")
    findings = {finding["what"]: finding for finding in json.loads(rag("doctor", "--json").stdout)}
    assert not findings[PROVIDER]["ok"]
    assert findings[PROVIDER]["fix"].startswith("Set RAG_OIDC__ISSUER to exactly its name")


def test_nobody_is_asked_without_a_provider() -> None:
    assert look(None) == {}


def test_what_a_provider_states(provider: OpenIdProvider) -> None:
    provider.metadata = {
        "code_challenge_methods_supported": ["plain", "S256"],
        "id_token_signing_alg_values_supported": ["HS256", "RS256", "ES256"],
    }
    states = look(provider.issuer)
    assert list(states) == [PROVIDER, PKCE, SIGNATURES]
    assert states[PKCE] == State(True, "S256")
    assert states[SIGNATURES] == State(True, "RS256"), "there is no key for ES256"


def test_a_provider_that_is_not_there() -> None:
    address = nowhere()
    (state,) = look(address).values()
    assert not state.ok
    assert state.found.startswith(f"the provider does not answer at {address}/.well-known/openid-configuration (")
    assert state.fix.startswith("Check RAG_OIDC__ISSUER, and that this machine reaches the provider")


def test_an_address_that_is_no_issuer(provider: OpenIdProvider) -> None:
    (state,) = look(f"{provider.issuer}/realms/none").values()
    assert (state.ok, state.fix) == (False, "Check RAG_OIDC__ISSUER.")
    assert "/realms/none/.well-known/openid-configuration answers with status 404" in state.found


def test_a_provider_with_another_name(provider: OpenIdProvider) -> None:
    provider.metadata = {"issuer": "https://sso.example.org"}
    (state,) = look(provider.issuer).values()
    assert state == State(
        False,
        f"the provider calls itself 'https://sso.example.org', not '{provider.issuer}'",
        "Set RAG_OIDC__ISSUER to exactly its name, if it is the right one.",
    )


def test_endpoints_that_a_sign_in_needs(provider: OpenIdProvider) -> None:
    provider.metadata = {"token_endpoint": None, "jwks_uri": "http://sso.example.org/keys"}
    (state,) = look(provider.issuer).values()
    assert not state.ok
    assert state.found.endswith("has no https address as token_endpoint and jwks_uri")
    assert "OpenID provider" in state.fix


def test_a_provider_without_keys(provider: OpenIdProvider) -> None:
    provider.metadata = {"jwks_uri": f"{provider.issuer}/favicon.ico"}
    (state,) = look(provider.issuer).values()
    assert (state.ok, "has no keys (status 204)" in state.found, "publish the keys" in state.fix) == (False, True, True)


def test_a_provider_that_takes_another_code_challenge(provider: OpenIdProvider) -> None:
    provider.metadata = {"code_challenge_methods_supported": ["plain"]}
    state = look(provider.issuer)[PKCE]
    assert (state.ok, state.found) == (False, "it takes plain, and not S256")
    assert "S256" in state.fix


@pytest.mark.parametrize(
    ("stated", "found"),
    [
        (["HS256", "none"], "it signs with HS256, none, which the service does not accept"),
        ([], "it signs with nothing, which the service does not accept"),
        ([{}], "it signs with {}, which the service does not accept"),
        (["ES256", "EdDSA"], "none of its keys (2) is for ES256, EdDSA"),
    ],
)
def test_signatures_that_are_not_accepted(provider: OpenIdProvider, stated: list[Any], found: str) -> None:
    provider.metadata = {"id_token_signing_alg_values_supported": stated}
    state = look(provider.issuer)[SIGNATURES]
    assert (state.ok, state.found) == (False, found)
    assert state.fix.startswith("Let the provider sign ID tokens of this client with RS256 or ES256")


def test_keys_that_are_not_for_signatures(provider: OpenIdProvider) -> None:
    provider.key = RSAKey.generate_key(2048, {"kid": "first", "use": "enc"})
    state = look(provider.issuer)[SIGNATURES]
    assert (state.ok, state.found.startswith("none of its keys (2) is for RS256, ")) == (False, True)
    assert "jwks_uri" in state.fix


def test_a_secret_that_cannot_be_read(provider: OpenIdProvider, tmp_path: Path) -> None:
    (state,) = look(provider.issuer, client_secret_file=tmp_path / "none").values()
    assert not state.ok
    assert "RAG_OIDC__CLIENT_SECRET_FILE" in state.found
    assert provider.asked == []
