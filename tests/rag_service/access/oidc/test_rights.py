"""Claims become rights: tenant, role and collections, and never more than the settings say."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rag_service.access.oidc.refusal import SignInRefused
from rag_service.access.oidc.rights import person_of, rights_of
from rag_service.access.principal import PROVIDERS_PERSON
from rag_service.errors import InvalidSettings
from rag_service.oidc_settings import Oidc
from rag_service.settings import load_settings, setting_values
from tests.rag_service.access.oidc.conftest import ADDRESS, TENANT, Browser, MakeService
from tests.support.peers.openid_provider import OpenIdProvider

WHO: dict[str, Any] = {"iss": "https://sso.example", "sub": "248289"}
ISSUER = {"issuer": "https://sso.example", "client_id": "rag"}


def oidc(**changes: Any) -> Oidc:
    return Oidc(**{**ISSUER, "roles": {"admins": "admin", "writers": "editor", "staff": "reader"}, **changes})


@pytest.mark.parametrize(
    ("groups", "role"),
    [
        (["staff"], "reader"),
        (["staff", "admins", "writers"], "admin"),
        (["writers", "staff"], "editor"),
        ("staff", "reader"),
        (["staff", 3, None, {"admins": 1}], "reader"),
        (["ADMINS", " admins", "admins ", "staff"], "reader"),
    ],
    ids=str,
)
def test_the_strongest_role_of_the_groups_counts(groups: Any, role: str) -> None:
    assert rights_of({**WHO, "groups": groups}, oidc()).role == role


@pytest.mark.parametrize("groups", [None, [], "admin", "admins,staff", ["guests"], {"admins": True}, 7, True], ids=str)
def test_who_is_in_no_group_is_not_admitted_without_a_default_role(groups: Any) -> None:
    with pytest.raises(SignInRefused) as caught:
        rights_of({**WHO, "groups": groups}, oidc())
    assert caught.value.reason == "not_admitted"
    assert rights_of({**WHO, "groups": groups}, oidc(default_role="reader")).role == "reader"


def test_the_default_role_is_for_those_in_no_group_alone() -> None:
    assert rights_of({**WHO, "groups": ["staff"]}, oidc(default_role="admin")).role == "reader"


@pytest.mark.parametrize(
    ("name", "claims"),
    [
        ("realm_access.roles", {"realm_access": {"roles": ["admins"]}}),
        ("https://rag.example/roles", {"https://rag.example/roles": ["admins"]}),
        ("a.b", {"a.b": ["admins"], "a": {"b": ["staff"]}}),
    ],
)
def test_a_claim_has_a_name_or_a_path(name: str, claims: dict[str, Any]) -> None:
    assert rights_of({**WHO, **claims}, oidc(roles_claim=name)).role == "admin"


def test_the_tenant_is_that_of_the_settings_or_of_the_claim() -> None:
    claims = {**WHO, "groups": ["staff"], "org": "research"}
    assert rights_of(claims, oidc()).tenant == "default"
    assert rights_of(claims, oidc(tenant="other")).tenant == "other"
    assert rights_of(claims, oidc(tenant_claim="org")).tenant == "research"
    assert rights_of({**claims, "org": ["research"]}, oidc(tenant_claim="org")).tenant == "research"


@pytest.mark.parametrize("tenant", [None, "", [], ["a", "b"], 3, "a:b", "../up", "a@b", "a" * 65, "é"], ids=str)
def test_who_has_no_tenant_is_not_admitted(tenant: Any) -> None:
    with pytest.raises(SignInRefused, match="has no tenant"):
        rights_of({**WHO, "groups": ["admins"], "org": tenant}, oidc(tenant_claim="org", tenant="other"))


@pytest.mark.parametrize(
    ("groups", "collections"),
    [
        (["staff"], ("handbook",)),
        (["staff", "writers"], ("handbook", "news")),
        (["staff", "admins"], None),
    ],
    ids=str,
)
def test_the_collections_are_those_of_all_groups(groups: list[str], collections: tuple[str, ...] | None) -> None:
    settings = oidc(collections={"staff": ["handbook"], "writers": ["news", "handbook"], "admins": ["*"]})
    assert rights_of({**WHO, "groups": groups}, settings).collections == collections


def test_who_has_no_collections_is_not_admitted() -> None:
    with pytest.raises(SignInRefused, match="has 0 collections"):
        rights_of({**WHO, "groups": ["staff"]}, oidc(collections={"admins": ["*"]}))


@pytest.mark.parametrize(
    ("claims", "name"),
    [
        ({"name": "Ann Example", "preferred_username": "ann", "email": "a@b"}, "Ann Example"),
        ({"name": "", "preferred_username": "ann", "email": "a@b"}, "ann"),
        ({"name": 3, "email": "a@b"}, "a@b"),
        ({"name": "  Ann\nExample\u202e "}, "AnnExample"),
        ({"name": "x" * 200}, "x" * 100),
        ({}, person_of(WHO["iss"], WHO["sub"])),
    ],
    ids=str,
)
def test_people_are_shown_by_name_or_address(claims: dict[str, Any], name: str) -> None:
    assert rights_of({**WHO, "groups": ["staff"], **claims}, oidc()).name == name


def test_a_person_is_an_issuer_and_a_subject() -> None:
    people = {person_of(issuer, subject) for issuer in ("https://a", "https://b") for subject in ("1", "2", "1 ")}
    assert len(people) == 6
    assert all(PROVIDERS_PERSON.fullmatch(person) for person in people)
    assert person_of("https://a", "é" * 300) == person_of("https://a", "é" * 300)


async def test_collections_bind_who_is_signed_in(service: MakeService) -> None:
    async with service(collections={"everyone": ["fruit"]}) as client:
        browser = Browser(client)
        await browser.sign_in()
        assert (await browser.who())["collections"] == ["fruit"]
        cookie = f"rag-sign-in-8080={browser.cookies['rag-sign-in-8080']}"
        headers = {"Cookie": cookie, "Sec-Fetch-Site": "same-origin"}
        assert (await client.post("/v1/collections", json={"name": "nuts"}, headers=headers)).status_code == 403


async def test_groups_may_be_at_the_user_info_endpoint(browser: Browser, provider: OpenIdProvider) -> None:
    provider.people["eve"] = {}
    provider.told = {"eve": {"groups": ["rag-admins"], "name": "Eve Example", "iss": "https://evil.example"}}
    assert await browser.sign_in("eve") == f"{ADDRESS}/"
    who = await browser.who()
    assert (who["role"], who["key_name"], who["tenant"]) == ("admin", "Eve Example", TENANT)
    assert who["person"] == person_of(provider.issuer, "eve"), "the ID token counts"


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"client_id": None}, "RAG_OIDC__ISSUER needs RAG_OIDC__CLIENT_ID"),
        ({"roles": {}}, "RAG_OIDC__ISSUER admits nobody without RAG_OIDC__ROLES"),
        ({"roles": {"x": "owner"}}, "RAG_OIDC__ROLES__X: Input should be 'reader', 'editor' or 'admin'"),
        ({"collections": {"x": ["../up"]}}, "RAG_OIDC__COLLECTIONS__X"),
        ({"issuer": "http://sso.example"}, "RAG_OIDC__ISSUER: .*must begin with https://"),
        ({"issuer": "https://user:word@sso.example"}, "RAG_OIDC__ISSUER: .*without user"),
        ({"issuer": "sso.example"}, "RAG_OIDC__ISSUER: .*must be an address"),
        ({"issuer": "javascript:alert(1)"}, "RAG_OIDC__ISSUER: .*must be an address"),
        ({"public_url": "https://rag.example/?x"}, "RAG_OIDC__PUBLIC_URL"),
        ({"scopes": "profile email"}, "RAG_OIDC__SCOPES: .*must contain openid"),
        ({"tenant": "a:b"}, "RAG_OIDC__TENANT"),
        ({"hours": 0}, "RAG_OIDC__HOURS"),
    ],
    ids=str,
)
def test_settings_that_cannot_work_are_said(own_folder: None, settings: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidSettings, match=message):
        load_settings(oidc={**ISSUER, "roles": {"staff": "reader"}, **settings})


def test_the_environment_sets_it(own_folder: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("a secret\n")
    for name, value in {
        "ISSUER": "https://sso.example/realms/staff",
        "CLIENT_ID": "rag",
        "CLIENT_SECRET": "",
        "CLIENT_SECRET_FILE": str(tmp_path / "secret"),
        "ROLES": '{"staff": "reader"}',
        "COLLECTIONS": '{"staff": ["handbook"]}',
        "PUBLIC_URL": "https://rag.example/",
    }.items():
        monkeypatch.setenv(f"RAG_OIDC__{name}", value)
    settings = load_settings()
    assert settings.oidc.secret == "a secret"
    assert settings.oidc.roles == {"staff": "reader"}
    assert settings.oidc.public_url == "https://rag.example"
    monkeypatch.setenv("RAG_OIDC__CLIENT_SECRET", "another secret")
    settings = load_settings()
    assert settings.oidc.secret == "another secret"
    assert "another secret" not in str(setting_values(settings))
    (tmp_path / "secret").unlink()
    monkeypatch.delenv("RAG_OIDC__CLIENT_SECRET")
    with pytest.raises(InvalidSettings, match=r"RAG_OIDC__CLIENT_SECRET_FILE: .*secret cannot be read"):
        _ = load_settings().oidc.secret


def test_empty_settings_are_none(own_folder: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """As containers pass them on."""
    for name in ("ISSUER", "CLIENT_ID", "CLIENT_SECRET", "TENANT_CLAIM", "PUBLIC_URL", "DEFAULT_ROLE"):
        monkeypatch.setenv(f"RAG_OIDC__{name}", "")
    assert load_settings().oidc == Oidc()
