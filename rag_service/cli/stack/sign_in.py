"""What `rag doctor` finds out about the OpenID provider: whether people can sign in there, as far as it says itself.

Metadata and keys are read and checked as in a sign-in. What a sign-in learns only on its way is read from the metadata:
OpenID Connect Discovery 1.0, section 3 (signatures); RFC 8414, section 2 (PKCE).
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

from rag_service.access.oidc.id_token import ALGORITHMS, Jwk, algorithms_of
from rag_service.access.oidc.provider import Provider
from rag_service.access.oidc.refusal import SignInRefused
from rag_service.cli.stack.model_servers import State
from rag_service.errors import InvalidSettings
from rag_service.oidc_settings import Oidc

_USUAL = "Let the provider sign ID tokens of this client with RS256 or ES256"


def states(settings: Oidc) -> Iterator[tuple[str, State]]:
    """What was looked at, and what was found; nothing without a provider in the settings."""
    if settings.issuer is None:
        return
    what = "OpenID provider"
    try:
        metadata, jwks = asyncio.run(Provider(settings).read())
    except InvalidSettings as error:
        yield what, State(False, str(error), "See docs/how-to/sign-in.md.")
        return
    except SignInRefused as refused:
        yield what, State(False, refused.found, f"{refused.fix[:1].upper()}{refused.fix[1:]}.")
        return
    yield what, State(True, f"{settings.issuer} answers, with its endpoints and keys")
    yield "OpenID provider's PKCE", _pkce(_list(metadata, "code_challenge_methods_supported"))
    stated = _list(metadata, "id_token_signing_alg_values_supported")
    yield "OpenID provider's signatures", _signatures(stated, jwks)


def _pkce(stated: list[object] | None) -> State:
    if stated is None:
        return State(True, "not stated; every sign-in uses S256")
    if "S256" in stated:
        return State(True, "S256")
    fix = "Allow the code challenge method S256 for this client at the provider: the service uses no other."
    return State(False, f"it takes {_named(stated)}, and not S256", fix)


def _signatures(stated: list[object] | None, jwks: list[Jwk]) -> State:
    accepted = [name for name in ALGORITHMS if stated is None or name in stated]
    if stated is not None and not accepted:
        return State(False, f"it signs with {_named(stated)}, which the service does not accept", f"{_USUAL}.")
    usable = algorithms_of(jwks, accepted)
    if not usable:
        found = f"none of its keys ({len(jwks)}) is for {', '.join(accepted)}"
        return State(False, found, f"{_USUAL}, and publish the key at its jwks_uri.")
    return State(True, f"{'not stated; its keys are for ' if stated is None else ''}{', '.join(usable)}")


def _list(metadata: dict[str, Any], name: str) -> list[object] | None:
    value = metadata.get(name)
    return value if isinstance(value, list) else None


def _named(values: list[object]) -> str:
    return ", ".join(str(value)[:20] for value in values[:10]) or "nothing"
