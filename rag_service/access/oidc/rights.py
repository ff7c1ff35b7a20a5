"""What a person may do who signed in at the provider: tenant, role and collections, from the claims.

A person is an issuer and a subject: names and addresses of e-mail change hands. Knows claims and settings; knows no
tokens and no HTTP.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any

from rag_service.access.oidc.refusal import SignInRefused
from rag_service.access.principal import NAME, PROVIDERS_PERSON, ROLES
from rag_service.contract.keys import MOST_COLLECTIONS_OF_A_KEY, NAME_CHARS, Role
from rag_service.oidc_settings import Oidc

Claims = dict[str, Any]
ALL = "*"


@dataclass(frozen=True, slots=True)
class Rights:
    """What `ApiKeys.prepared` needs for a person.

    Attributes:
        name: the person's name, user name or e-mail address, to be shown.
        person: made from issuer and subject.
        collections: the only ones they can access; None for all.
    """

    name: str
    tenant: str
    person: str
    role: Role
    collections: tuple[str, ...] | None


def rights_of(claims: Claims, settings: Oidc) -> Rights:
    """The rights of the person with these claims.

    Raises:
        SignInRefused: they have none.
    """
    person = person_of(claims["iss"], claims["sub"])
    groups = _groups(claims, settings.roles_claim)
    roles = [role for group, role in settings.roles.items() if group in groups]
    roles = roles or ([] if settings.default_role is None else [settings.default_role])
    if not roles:
        raise SignInRefused(
            "not_admitted",
            f"{person} is in no group of RAG_OIDC__ROLES; the claim {settings.roles_claim!r} has "
            f"{_shown(groups)}. Add one of these groups, add the person to one, or set RAG_OIDC__DEFAULT_ROLE",
        )
    return Rights(
        name=_name(claims) or person,
        tenant=_tenant(claims, settings, person),
        person=person,
        role=max(roles, key=ROLES.index),
        collections=_collections(groups, settings, person),
    )


def person_of(issuer: str, subject: str) -> str:
    """The person's name in Redis keys, which matches PROVIDERS_PERSON."""
    person = f"oidc-{hashlib.sha256(f'{issuer} {subject}'.encode()).hexdigest()[:32]}"
    assert PROVIDERS_PERSON.fullmatch(person)
    return person


def claim(claims: Claims, name: str) -> object:
    """A claim by its name, or by a path with dots; None if there is none."""
    if name in claims:
        return claims[name]
    value: object = claims
    for part in name.split("."):
        value = value.get(part) if isinstance(value, dict) else None
    return value


def _groups(claims: Claims, name: str) -> frozenset[str]:
    value = claim(claims, name)
    values = value if isinstance(value, list) else [value]
    return frozenset(one for one in values if isinstance(one, str))


def _tenant(claims: Claims, settings: Oidc, person: str) -> str:
    if settings.tenant_claim is None:
        return settings.tenant
    value = claim(claims, settings.tenant_claim)
    if isinstance(value, list) and len(value) == 1:
        value = value[0]
    if not isinstance(value, str) or not NAME.fullmatch(value):
        raise SignInRefused(
            "not_admitted",
            f"{person} has no tenant: the claim {settings.tenant_claim!r} (RAG_OIDC__TENANT_CLAIM) must be 1 to 64 "
            "letters, digits, '-' or '_'",
        )
    return value


def _collections(groups: frozenset[str], settings: Oidc, person: str) -> tuple[str, ...] | None:
    if not settings.collections:
        return None
    names = {name for group, listed in settings.collections.items() if group in groups for name in listed}
    if ALL in names:
        return None
    if not names or len(names) > MOST_COLLECTIONS_OF_A_KEY:
        raise SignInRefused(
            "not_admitted",
            f"{person} has {len(names)} collections by RAG_OIDC__COLLECTIONS, and may have 1 to "
            f"{MOST_COLLECTIONS_OF_A_KEY}; the claim {settings.roles_claim!r} has {_shown(groups)}",
        )
    return tuple(sorted(names))


def _name(claims: Claims) -> str:
    for name in ("name", "preferred_username", "email"):
        value = claims.get(name)
        if isinstance(value, str):
            shown = "".join(character for character in value if character.isprintable()).strip()[:NAME_CHARS].strip()
            if shown:
                return shown
    return ""


def _shown(groups: frozenset[str]) -> str:
    return ", ".join(sorted(repr(group[:60]) for group in groups)[:20]) or "none"
