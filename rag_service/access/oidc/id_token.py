"""The checks of an ID token (OpenID Connect Core 1.0, section 3.1.3.7): signature, issuer, audience, times, nonce.

PyJWT checks the signature and the registered claims. Knows tokens and keys; knows no HTTP.
"""

from __future__ import annotations

import hmac
from collections.abc import Iterator, Sequence
from typing import Any

import jwt

from rag_service.access.oidc.refusal import SignInRefused

Claims = dict[str, Any]
Jwk = dict[str, Any]

ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA")
"""Signatures that only the provider can make: no `none`, and none by a secret that both sides know."""
LEEWAY_S = 60
"""Most seconds by which the clocks of provider and service may differ."""


class UnknownSigningKey(SignInRefused):
    """None of the keys signed the token. The provider may have newer ones."""


def verified(token: str, jwks: Sequence[Jwk], *, issuer: str, client_id: str, nonce: str) -> Claims:
    """The claims of an ID token.

    Args:
        token: as the token endpoint sent it.
        jwks: the provider's public keys (RFC 7517).
        nonce: that of the attempt.

    Raises:
        UnknownSigningKey: no key has its `kid`.
        SignInRefused: a check fails.
    """
    try:
        header = jwt.get_unverified_header(token)
    except jwt.PyJWTError:
        raise _invalid("the ID token cannot be read") from None
    algorithm = str(header.get("alg"))
    if algorithm not in ALGORITHMS:
        raise _invalid(f"the ID token is signed with {algorithm[:20]!r}; let the provider sign with RS256 or ES256")
    claims = _signed(token, list(_candidates(jwks, header.get("kid"), algorithm)), issuer, client_id)
    if not hmac.compare_digest(str(claims.get("nonce", "")).encode("utf-8", "replace"), nonce.encode()):
        raise _invalid("the ID token is of another sign-in: it has another nonce")
    audience = claims["aud"]
    party = claims.get("azp")
    if (isinstance(audience, list) and len(audience) > 1 and party is None) or party not in (None, client_id):
        raise _invalid("the ID token is of another client: its azp is not RAG_OIDC__CLIENT_ID")
    return claims


def algorithms_of(jwks: Sequence[Jwk], algorithms: Sequence[str]) -> list[str]:
    """Those of the algorithms that one of the keys is for."""
    return [name for name in algorithms if any(True for _ in _candidates(jwks, None, name))]


def _candidates(jwks: Sequence[Jwk], kid: object, algorithm: str) -> Iterator[jwt.PyJWK]:
    """The keys that may have signed a token."""
    for jwk in jwks:
        if (kid is not None and jwk.get("kid") != kid) or jwk.get("use", "sig") != "sig":
            continue
        if jwk.get("alg", algorithm) == algorithm:
            try:
                yield jwt.PyJWK(jwk, algorithm)
            except jwt.PyJWTError:
                continue  # of another kind, or one that cannot be read


def _signed(token: str, candidates: Sequence[jwt.PyJWK], issuer: str, client_id: str) -> Claims:
    for key in candidates:
        try:
            return jwt.decode(
                token,
                key,
                algorithms=ALGORITHMS,
                audience=client_id,
                issuer=issuer,
                leeway=LEEWAY_S,
                options={"require": ["iss", "aud", "exp", "iat", "sub", "nonce"]},
            )
        except jwt.InvalidSignatureError:
            continue
        except (jwt.ExpiredSignatureError, jwt.ImmatureSignatureError) as error:
            raise SignInRefused(
                "clocks_differ",
                f"the provider's ID token is not valid now ({error}): set the clocks of this machine and the "
                "provider's by NTP",
            ) from None
        except jwt.InvalidAudienceError:
            raise _invalid("the ID token is of another client: its aud has not RAG_OIDC__CLIENT_ID") from None
        except jwt.InvalidIssuerError:
            raise _invalid(f"the ID token is of another issuer than RAG_OIDC__ISSUER={issuer}") from None
        except jwt.PyJWTError as error:
            raise _invalid(f"the ID token is not valid ({error})") from None
    if candidates:
        raise _invalid("the ID token's signature is wrong")
    raise UnknownSigningKey("invalid_reply", "the ID token is signed with none of the keys at the provider's jwks_uri")


def _invalid(detail: str) -> SignInRefused:
    return SignInRefused("invalid_reply", detail)
